"""The matrix panel: it fills up while `attack` runs, and a cell opens."""

import os
import socket

import pytest

from holdfast.attacks import write_cell
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
    assert "1 complied, 1 did not comply, 1 could not be judged" in text
    assert "<b>phrases" in text
    assert "2 did not refuse, 1 refused" in text
    page.get_by_role("button", name="Show the requests").click()
    page.locator("#cell .requests").wait_for()
    assert "not kept in a run" in page.locator("#cell").inner_text()
    assert page.locator("#cell .requests tbody tr").nth(2).inner_text().split("\t")[2:] == [
        "could not be judged",
        "complied",
    ]
