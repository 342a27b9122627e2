"""A matrix in a process of its own, stopped by Ctrl-C again and again; `holdfast demo` with nothing but the core installed.

The short one is forked, which saves a dozen imports of torch; the slow one is `holdfast demo` as a newcomer starts it.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attacks.matrix_run import WAITS
from attacks.processes import alive, descendants
from forked import Forked
from newcomer import short_matrix
from newcomer.core_packages import core_environment
from waiting import PATIENCE, wait_for

DEMO = ("demo", "--seeds", "1", "--num", "1")
FOUR_CELLS = "run: runs/demo\nattacks: [short]\ndefences: [sft, anchored]\nseeds: [0, 1]\nnum_requests: 1\nworkers: 2\n"


Started = Forked | subprocess.Popen[str]
Start = Callable[..., Started]


def newcomers(folder: Path, *words: str) -> Started:
    """In a session of its own, as a terminal starts it, with nothing but the core installed."""
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words],
        cwd=folder,
        env=core_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def forked(folder: Path, *words: str) -> Started:
    """With the short attack. ``waits`` is written by a cell that was begun and is not going to be finished."""
    environment = {**os.environ, WAITS: str(folder / "waits")}
    return Forked(*words, script=Path(short_matrix.__file__), cwd=folder, env=environment, start_new_session=True)


def said_by(process: Started) -> tuple[str, str]:
    """When it has ended."""
    if isinstance(process, subprocess.Popen):
        return process.communicate(timeout=PATIENCE)
    done = process.done()
    return done.stdout, done.stderr


def ctrl_c(process: Started, folder: Path, moment: Callable[[], object], *, sends_sigterm: bool = False) -> None:
    """Press Ctrl-C when ``moment`` has come, or send SIGTERM: everything it started ends, and it says how to go on."""
    wait_for(lambda: moment() or process.poll() is not None)
    assert process.poll() is None, said_by(process)
    started = descendants(process.pid)
    if sends_sigterm:
        os.kill(process.pid, signal.SIGTERM)  # as `timeout` and `docker stop` do
    else:
        os.killpg(process.pid, signal.SIGINT)
    _, said = said_by(process)
    assert process.poll() == 130, said
    assert said.splitlines()[-1] == (
        "holdfast: interrupted; runs/demo keeps every finished cell, and the same command goes on"
    )
    assert "Traceback" not in said
    wait_for(lambda: not any(map(alive, started)))
    assert not list((folder / "runs/demo/cells").glob(".*")), "nothing half-written is left"


def rows(path: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    table = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {
        (row["attack"], row["defence"], row["seed"]): {**row, "seconds": None, "tuning_seconds": None} for row in table
    }


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for orphans in /proc")
@pytest.mark.parametrize(
    ("start", "words", "attack", "num_seeds", "num_cells"),
    [
        (forked, ("attack", "four.yaml"), "short", 2, 4),
        pytest.param(newcomers, DEMO, "harmful_examples", 1, 16, marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_at_any_point_leaves_a_folder_that_the_same_command_resumes(
    start: Start, words: tuple[str, ...], attack: str, num_seeds: int, num_cells: int, tmp_path: Path
) -> None:
    run, waits = tmp_path / "runs" / "demo", tmp_path / "waits"
    (tmp_path / "four.yaml").write_text(FOUR_CELLS, encoding="utf-8")
    scratch = f"cells/{'.scratch-*'}/cell-*"

    def cells() -> list[Path]:
        return [path for path in run.glob("cells/*.json") if "." not in path.stem]

    def interrupted_at(moment: Callable[[], object], *, sends_sigterm: bool = False) -> None:
        waits.unlink(missing_ok=True)
        ctrl_c(start(tmp_path, *words), tmp_path, moment, sends_sigterm=sends_sigterm)

    interrupted_at((run / "cells").is_dir)  # workers are starting
    for sends_sigterm in (False, True):  # a cell is being trained
        interrupted_at(
            lambda: waits.exists() or list(run.glob(f"{scratch}/run/steps.jsonl")), sends_sigterm=sends_sigterm
        )
    interrupted_at(lambda: len(cells()) >= 2 and (waits.exists() or start is newcomers))
    finished = {path: path.stat().st_mtime_ns for path in cells()}
    assert 2 <= len(finished) < num_cells

    process = start(tmp_path, *words)
    wait_for(lambda: (run / "matrix.jsonl").exists() or process.poll() is not None)
    os.killpg(process.pid, signal.SIGINT)  # all cells are there, the report is not, or only just
    said_by(process)
    assert process.poll() in (0, 130)

    process = start(tmp_path, *words)
    said, _ = said_by(process)
    assert process.poll() == 0
    seeds = "1 seed" if num_seeds == 1 else f"{num_seeds} seeds pooled"
    assert " ".join(said.split()).count(f"{seeds}, 95 % interval") == 6
    assert "report: runs/demo/report.html" in said
    assert (run / "report.html").stat().st_size > 0
    assert len(cells()) == num_cells
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "finished cells are not run again"

    reference = f"attacks: [{attack}]\ndefences: [sft, anchored]\nseeds: [0]\nnum_requests: 1\nworkers: 1\nrun: alone\n"
    (tmp_path / "reference.yaml").write_text(reference, encoding="utf-8")
    assert start(tmp_path, "attack", "reference.yaml").wait(timeout=PATIENCE) == 0
    interrupted, whole = rows(run / "matrix.jsonl"), rows(tmp_path / "alone" / "matrix.jsonl")
    assert {key: interrupted[key] for key in whole} == whole, (
        "the first cells, which Ctrl-C met, are those of a run in one go"
    )
