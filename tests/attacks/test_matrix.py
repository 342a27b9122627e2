"""The matrix with real worker processes: found again after a kill, and one bad cell among good ones."""

import json
import os
import shutil
import signal
import socket
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from attacks import matrix_run
from attacks.matrix_run import ATTACKED, DEFENDED, SEEDS, SMALL, WAITS
from attacks.processes import alive, descendants
from forked import Forked
from holdfast.attacks import ATTACKS, DEFENCES, read_cell, run_matrix, write_cell
from holdfast.attacks.scratch import PREFIX, scratch_in
from holdfast.config import InputError
from holdfast.records import Cell, Trace
from holdfast.worlds import SafetyWorld
from waiting import wait_for

NUM_CELLS = len(ATTACKED) * len(DEFENDED) * len(SEEDS)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for orphans in /proc")
def test_a_killed_matrix_goes_on_where_it_stopped(tmp_path: Path) -> None:
    cells = tmp_path / "cells"

    def written() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in cells.glob("*.json") if "." not in path.stem}

    mark = tmp_path / "waits"
    process = Forked(tmp_path, script=Path(matrix_run.__file__), env={**os.environ, WAITS: str(mark)})
    wait_for(mark.exists)
    workers = descendants(process.pid)
    process.kill()
    process.wait()
    wait_for(lambda: not any(map(alive, workers)))
    before = written()
    assert len(before) == NUM_CELLS // 2 + 1, "every cell of seed 0, and one that needs no rows"
    failed, _ = before.popitem()
    write_cell(failed, replace(read_cell(failed), status="failed", reason="once"))  # type: ignore[type-var]
    assert list(cells.glob(".scratch-*")), "the kill left something to clean up"
    heard: list[tuple[Cell, int, int]] = []
    table = run_matrix(
        ATTACKED, DEFENDED, SEEDS, tmp_path, scale=SMALL, num_workers=1, on_cell=lambda *news: heard.append(news)
    )
    assert {path: written()[path] for path in before} == before, "finished cells are not run again"
    assert read_cell(failed).reason == "", "failed ones are"  # type: ignore[union-attr]
    assert [(cell.attack, cell.defence, cell.seed) for cell in table] == [
        (attack.name, defence.name, seed) for attack in ATTACKED for defence in DEFENDED for seed in SEEDS
    ]
    assert all(cell.status == "ok" for cell in table)
    assert [done for _, done, _ in heard] == list(range(1, NUM_CELLS + 1))
    assert list(cells.glob(".scratch-*")) == []
    rows = [json.loads(line) for line in (tmp_path / "matrix.jsonl").read_text().splitlines()]
    assert rows == [cell.row() for cell in table]


@dataclass(frozen=True)
class Deadly:
    """Data that kills whoever reads it."""

    def rows(self, world: SafetyWorld, seed: int) -> list[Trace]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []


def test_a_cell_that_fails_or_kills_its_worker_says_why_and_costs_no_other(tmp_path: Path) -> None:
    attack = ATTACKS["harmful_examples"]
    deadly = replace(attack, name="deadly", data=Deadly())
    bad = replace(DEFENCES["sft"], name="bad", objective="sfft")
    defences = [bad, DEFENCES["untouched"]]
    table = run_matrix([deadly, attack], defences, (0,), tmp_path, scale=SMALL, num_workers=1)
    assert [cell.status for cell in table] == ["failed", "ok", "failed", "ok"]
    assert table[0].asr is None
    assert table[0].reason == "its process died (signal 9)"
    assert "unknown 'sfft'; did you mean 'sft'" in table[2].reason
    good = run_matrix([attack], [DEFENCES["untouched"]], (0,), tmp_path, scale=SMALL, num_workers=1)
    assert good == table[3:], "found, not run"


def test_the_scratch_of_a_machine_whose_name_begins_like_ours_is_left_alone(tmp_path: Path) -> None:
    """`node` and `node-2` may share a disk."""
    theirs = tmp_path / f"{PREFIX}{socket.gethostname()}-2-99999999"
    dead = tmp_path / f"{PREFIX}{socket.gethostname()}-99999999"
    for folder in (theirs, dead):
        folder.mkdir()
    with scratch_in(tmp_path):
        assert (theirs.is_dir(), dead.exists()) == (True, False)


def test_the_scratch_that_a_killed_container_left_is_deleted_under_another_host_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its lock on the same machine; of another machine, whose locks may not be seen, after a day."""
    (tmp_path / "boot_id").write_text("one")
    monkeypatch.setattr("holdfast.attacks.scratch.BOOT_ID", tmp_path / "boot_id", raising=False)
    monkeypatch.setattr(socket, "gethostname", lambda: "c0ffee")
    with scratch_in(tmp_path) as scratch:
        left = tmp_path / f"{PREFIX}decaf-7"
        shutil.copytree(scratch, left)
        monkeypatch.setattr(socket, "gethostname", lambda: "5eaf00d")
        others = [tmp_path / f"{PREFIX}node-{pid}" for pid in (7, 8)]
        for folder in others:
            folder.mkdir()
        os.utime(others[0], (0, 0))
        with scratch_in(tmp_path):
            assert scratch.is_dir()
            assert [folder.exists() for folder in (left, *others)] == [False, False, True]


def test_ctrl_c_while_the_scratch_is_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def is_file(self) -> bool:
            raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.attacks.scratch.BOOT_ID", Interrupted())
    with pytest.raises(KeyboardInterrupt), scratch_in(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_doubles_and_unwritable_folders_are_refused(tmp_path: Path) -> None:
    attack, defence = ATTACKS["harmful_examples"], DEFENCES["sft"]
    with pytest.raises(InputError, match="harmful_examples on sft with seed 0 is there twice"):
        run_matrix([attack, attack], [defence], (0,), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        run_matrix([attack], [defence], (0,), tmp_path / "file")
