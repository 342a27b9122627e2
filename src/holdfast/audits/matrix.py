"""Attacks x defences x seeds, spread over the cores, kept cell by cell: an interrupted matrix goes on where it stopped."""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.attacks import Attack
from holdfast.audits.cell import run_cell
from holdfast.audits.cell_files import read_cell, write_cell, write_table
from holdfast.audits.defences import Defence
from holdfast.audits.keys import cell_key
from holdfast.audits.scale import Scale
from holdfast.audits.workers import work_through
from holdfast.config import InputError
from holdfast.records import Cell

TABLE = "matrix.jsonl"
OnCell = Callable[[Cell, int, int], None]
"""(cell, how many are done, how many there are)"""


@dataclass(frozen=True)
class CellTask:
    """A cell to be run, and the file it goes to."""

    attack: Attack
    defence: Defence
    seed: int
    scale: Scale
    path: Path
    scratch: Path


def run_matrix(
    attacks: Sequence[Attack],
    defences: Sequence[Defence],
    seeds: Sequence[int],
    folder: str | Path,
    *,
    scale: Scale | None = None,
    num_workers: int | None = None,
    on_cell: OnCell | None = None,
) -> list[Cell]:
    """All cells, in order of attack, defence, seed. Cells found in ``folder/cells`` are not run again; failed ones are.

    ``on_cell`` hears of every cell, those found included. At the end ``folder/matrix.jsonl`` has them all.
    """
    folder = Path(folder)
    scale = scale or Scale()
    scratch = _clean_scratch(folder)
    tasks = [
        CellTask(
            attack, defence, seed, scale, folder / "cells" / f"{cell_key(attack, defence, seed, scale)}.json", scratch
        )
        for attack in attacks
        for defence in defences
        for seed in seeds
    ]
    _refuse_doubles(tasks)
    cells: dict[Path, Cell] = {}

    def found(task: CellTask, cell: Cell) -> None:
        cells[task.path] = cell
        if on_cell is not None:
            on_cell(cell, len(cells), len(tasks))

    for task in tasks:
        cell = read_cell(task.path)
        if cell is not None and cell.status == "ok":
            found(task, cell)
    missing = [task for task in tasks if task.path not in cells]
    try:
        for done in work_through(missing, run_task, num_workers or num_cores()):
            found(done.task, _result(done.task, done.error))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    table = [cells[task.path] for task in tasks]
    write_table(folder / TABLE, table)
    return table


def run_task(task: CellTask) -> None:
    """In a worker: run the cell and write it; what goes wrong is written as the cell's reason."""
    try:
        cell = run_cell(task.attack, task.defence, task.seed, task.scale, scratch=task.scratch)
    except Exception as error:
        cell = _failed(task, _reason(error))
    write_cell(task.path, cell)


def _reason(error: Exception) -> str:
    """The user's mistakes explain themselves; ours need the place."""
    if isinstance(error, InputError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _result(task: CellTask, died: str | None) -> Cell:
    cell = read_cell(task.path)
    if died is not None or cell is None:
        cell = _failed(task, died or "its file could not be read back")
        write_cell(task.path, cell)
    return cell


def _failed(task: CellTask, reason: str) -> Cell:
    return Cell(task.attack.name, task.defence.name, task.seed, "world", status="failed", reason=reason)


def _refuse_doubles(tasks: Sequence[CellTask]) -> None:
    if len({task.path for task in tasks}) < len(tasks):
        raise InputError("matrix: the same attack, defence or seed is there twice")


def _clean_scratch(folder: Path) -> Path:
    """Room for this process's attacked weights; what a killed process left behind is deleted."""
    try:
        (folder / "cells").mkdir(parents=True, exist_ok=True)
        for old in folder.glob(".scratch-*"):
            if not _is_running(int(old.name.rpartition("-")[2])):
                shutil.rmtree(old, ignore_errors=True)
        scratch = folder / f".scratch-{os.getpid()}"
        scratch.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    return scratch


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != os.getpid()
