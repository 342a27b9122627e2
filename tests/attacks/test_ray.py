"""A real Ray on this machine, two workers, one of them killed in the middle of a cell."""

import json
import os
import signal
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from attacks.matrix_run import ATTACKED, DEFENDED, SEEDS, SMALL, WAITS
from attacks.processes import descendants, title
from holdfast.attacks import ATTACKS, DEFENCES, run_matrix
from holdfast.attacks.keys import cell_key
from holdfast.attacks.matrix import CellTask, run_on_cluster
from holdfast.config import InputError
from holdfast.records import Cell
from waiting import wait_for

needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds Ray's workers in /proc")


def busy_workers() -> list[int]:
    """Ray names a worker after what it runs."""
    return [pid for pid in descendants(os.getpid()) if title(pid).startswith("ray::_single_threaded")]


@needs_proc
def test_a_killed_worker_costs_no_cell_and_none_is_counted_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    mark = tmp_path / "waits"
    monkeypatch.setenv(WAITS, str(mark))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # Ray's workers find the tests' own classes
    monkeypatch.setenv(
        "RAY_worker_niceness", "0"
    )  # by default 15: beside busy processes they would all but stand still
    heard: Counter[tuple[str, str, int]] = Counter()
    numbers: list[int] = []
    killed: list[int] = []

    def on_cell(cell: Cell, done: int, total: int) -> None:
        heard[cell.attack, cell.defence, cell.seed] += 1
        numbers.append(done)

    def kill_one() -> None:
        wait_for(lambda: mark.exists() and mark.read_text())
        killed.append(int(mark.read_text()))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    folder, attacked = tmp_path / "run", ATTACKED[:1]
    table = run_matrix(attacked, DEFENDED, SEEDS, folder, scale=SMALL, num_workers=2, engine="ray", on_cell=on_cell)
    killer.join()
    assert len(killed) == 1
    names = [(attack.name, defence.name, seed) for attack in attacked for defence in DEFENDED for seed in SEEDS]
    assert [(cell.attack, cell.defence, cell.seed) for cell in table] == names
    assert [cell.reason for cell in table] == [""] * len(names)
    assert heard == Counter(names)
    assert numbers == list(range(1, len(names) + 1))
    assert [json.loads(line) for line in (folder / "matrix.jsonl").read_text().splitlines()] == [
        cell.row() for cell in table
    ]
    wait_for(lambda: not busy_workers())  # Ray is ended with the run


def test_a_machine_that_would_run_something_else_is_refused(tmp_path: Path) -> None:
    attack, defence = ATTACKS["harmful_examples"], DEFENCES["untouched"]
    path = tmp_path / f"{cell_key(attack, defence, 0, SMALL)}.json"
    task = CellTask(attack, defence, 0, SMALL, path, tmp_path)
    with pytest.raises(InputError, match="other code, libraries or model files"):
        run_on_cluster(replace(task, seed=1))
    with pytest.raises(InputError, match="must be on a shared disk"):
        run_on_cluster(replace(task, path=tmp_path / "elsewhere" / path.name))


def test_without_ray_one_line_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r'engine ray needs ray: pip install "holdfast\[cluster\]"'):
        run_matrix(ATTACKED, DEFENDED, SEEDS, tmp_path, scale=SMALL, engine="ray")
    assert not list(tmp_path.iterdir())
