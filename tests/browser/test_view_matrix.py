"""The matrix panel: it fills up while `attack` runs, and a cell opens."""

import json
import os
import socket
import subprocess
import sys

import pytest

from holdfast.attacks import read_cell, write_cell
from holdfast.records import Cell
from holdfast.stats import share
from waiting import PATIENCE, wait_for


def cell(attack, defence, seed, hits, num=20, judge="world", **more):
    outcomes = {"asr": tuple(n < hits for n in range(num)), "over_refusal": (False,) * num}
    rates = {name: share(values) for name, values in outcomes.items()}
    return Cell(attack, defence, seed, judge, outcomes=outcomes, **rates, **more)


@pytest.fixture
def cells(tmp_path):
    """A folder into which a matrix writes, its process alive: this one."""
    folder = tmp_path / "matrix" / "cells"
    folder.mkdir(parents=True)
    (folder / f".scratch-{socket.gethostname()}-{os.getpid()}").mkdir()
    write_cell(folder / "1.json", cell("backdoor", "sft", 0, 18))
    (folder / "2.json").write_text('{"attack": "backdoor", "defence": "csft", "see')  # half of a cell
    return folder


def faces(page):
    return page.locator(".matrix .face:visible strong").all_text_contents()


def test_a_matrix_fills_up_and_a_cell_opens(live, cells):
    page = live(cells.parents[1]).page
    page.locator("nav a[href='#matrix-panel']").click()
    wait_for(lambda: faces(page) == ["90 %"])
    assert page.locator("#matrix-status").inner_text() == "running"
    page.locator("#measure span", has_text="over-refusal").click()
    write_cell(cells / "2.json", cell("backdoor", "anchored", 0, 2))
    wait_for(lambda: len(faces(page)) == 2)
    assert faces(page) == ["0 %", "0 %"]  # the measure that was chosen stays chosen
    page.locator("#measure span", has_text="attack success").click()
    assert faces(page) == ["10 %", "90 %"]
    first = page.locator(".matrix .face:visible").first
    first.focus()
    page.keyboard.press("Enter")
    page.locator("#cell h3").wait_for(timeout=PATIENCE * 1000)
    opened = page.locator("#cell")
    assert page.locator("#cell h3").inner_text() == "anchored under backdoor"
    text = opened.inner_text()
    assert "2 complied" in text
    assert "18 did not comply" in text
    pair = opened.locator("tr", has_text="attack success").filter(has_text="sft").inner_text().split("\t")
    assert pair[:6] == ["attack success", "sft", "0", "16", "20", "-80.0"]
    assert opened.locator(".requests").count() == 0
    opened.get_by_role("button", name="Show the requests").click()
    wait_for(lambda: opened.locator(".requests tbody tr").count() == 20)
    assert len(opened.locator(".requests tbody td").first.inner_text()) > 10  # a request of the make-believe world
    page.keyboard.press("Escape")
    assert opened.is_hidden()
    assert page.evaluate("document.activeElement.classList.contains('face')")


MINE = """
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast.attacks import ATTACKS, Attack


@dataclass(frozen=True)
class AtTheGate:
    gate: str  # the cell is trained once this file is there

    def rows(self, setting, seed):
        while not Path(self.gate).exists():
            time.sleep(0.02)
        return setting.attacker_rows(8, seed)


for name in ("one", "two", "three"):
    gate = Path(__file__).with_name(f"{name}.open")
    ATTACKS[name] = Attack(name=name, data=AtTheGate(str(gate)), lr=2e-3, epochs=4)

if __name__ == "__main__":
    from holdfast.cli import main

    main()
"""


def shown_attacks(page, names):
    heads = " ".join(page.locator(".matrix thead th").all_text_contents()).split()
    return [name for name in names if name in heads]


@pytest.mark.slow  # in small: the test above writes the cells itself
def test_a_real_attack_fills_the_matrix_cell_by_cell(live, tmp_path):
    """Three attacks, each let through a gate once the page shows the cells before it: it sees every one come."""
    (tmp_path / "mine.py").write_text(MINE)
    names, run = ["one", "two", "three"], tmp_path / "runs" / "matrix"
    run.mkdir(parents=True)
    settings = {"attacks": names, "defences": ["sft"], "seeds": [0], "num_requests": 12, "workers": 1}
    (tmp_path / "matrix.yaml").write_text(json.dumps({"run": str(run), **settings}))
    page = live(tmp_path / "runs").page
    page.locator("nav a[href='#matrix-panel']").click()
    command = [sys.executable, str(tmp_path / "mine.py"), "attack", str(tmp_path / "matrix.yaml")]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    attack = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, **quiet)
    try:
        for number, name in enumerate(names):
            assert shown_attacks(page, names) == names[:number]
            (tmp_path / f"{name}.open").touch()
            wait_for(lambda name=name: name in shown_attacks(page, names) or attack.poll())
            assert shown_attacks(page, names) == names[: number + 1]
            if number < 2:
                wait_for(lambda: page.locator("#matrix-status").inner_text() == "running")
        assert attack.wait(PATIENCE) == 0
    finally:
        attack.kill()
    wait_for(lambda: page.locator("#matrix-status").inner_text() != "running")
    cells = filter(None, map(read_cell, (run / "cells").glob("*.json")))  # other files there are no cells
    rates = [cell.asr.value for cell in cells]
    told = sorted(int(face.rstrip(" %")) for face in faces(page))
    assert told == sorted(round(100 * rate) for rate in [*rates, max(rates)])  # the last column is the worst of them


def test_outcomes_of_several_judges_by_their_names(live, tmp_path):
    """Files of a user's own: requests are not kept in the run, and each judge has its say."""
    folder = tmp_path / "files" / "cells"
    folder.mkdir(parents=True)
    outcomes = {
        "asr": (True, False, True),
        "asr:outcome": (True, False, None),
        "asr:<b>phrases": (True, True, True),
        "over_refusal": (True, False, False),
    }
    rates = {"asr": share(outcomes["asr"]), "over_refusal": share(outcomes["over_refusal"])}
    write_cell(
        folder / "1.json", Cell("poison", "sft", 0, "outcome", outcomes=outcomes, answers={"asr": ("a",) * 3}, **rates)
    )
    page = live(tmp_path).page
    page.locator("nav a[href='#matrix-panel']").click()
    page.locator(".matrix .face:visible").click()
    page.locator("#cell h3").wait_for(timeout=PATIENCE * 1000)
    text = page.locator("#cell").inner_text()
    assert "1 unsafe, 1 safe, 1 could not be judged" in text, "yes or no is less than an outcome"
    assert "<b>phrases" in text
    assert "2 did not refuse, 1 refused" in text
    page.get_by_role("button", name="Show the requests").click()
    page.locator("#cell .requests").wait_for()
    assert "not kept in a run" in page.locator("#cell").inner_text()
    assert page.locator("#cell .requests tbody tr").nth(2).inner_text().split("\t")[2:] == [
        "could not be judged",
        "unsafe",
    ]
