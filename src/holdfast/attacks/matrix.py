"""Attacks x defences x seeds, spread over the cores, kept cell by cell: an interrupted matrix goes on where it stopped."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from transformers.utils import logging as transformers_logging

from holdfast.attacks.attack import Attack
from holdfast.attacks.caller_script import end_if_started_again
from holdfast.attacks.cell import run_cell
from holdfast.attacks.cell_files import read_cell, write_cell, write_table
from holdfast.attacks.defences import Defence
from holdfast.attacks.inside import gather_insides
from holdfast.attacks.keys import cell_key, named_parts
from holdfast.attacks.ray_workers import ray_through
from holdfast.attacks.scale import Scale
from holdfast.attacks.scratch import scratch_in
from holdfast.attacks.workers import Done, work_through
from holdfast.config import InputError
from holdfast.config.errors import is_out_of_memory
from holdfast.config.extras import need_extra
from holdfast.records import Cell

TABLE = "matrix.jsonl"
Engine = Literal["local", "ray"]
Only = Callable[[Attack, Defence], bool]
"""Which cells of the grid are wanted."""
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
    alone: bool = False  # no other cell runs beside it


def run_matrix(
    attacks: Sequence[Attack],
    defences: Sequence[Defence],
    seeds: Sequence[int],
    folder: str | Path,
    *,
    scale: Scale | None = None,
    num_workers: int | None = None,
    engine: Engine = "local",
    on_cell: OnCell | None = None,
    only: Only | None = None,
    write: bool = True,
) -> list[Cell]:
    """All cells, in order of attack, defence, seed. Cells found in ``folder/cells`` are not run again; failed ones are.

    A cell that ran out of memory while others ran beside it is run again at the end, alone (``Cell.ran_alone``).

    ``engine``: ``local`` processes, or a ``ray`` cluster whose machines all see ``folder``. ``on_cell`` hears of every
    cell once, also of those that were there. ``only``: which pairs of attack and defence are wanted; None: all. At the end
    ``folder/matrix.jsonl`` has them all, unless ``write`` is False.
    """
    if engine == "ray":
        need_extra("cluster", "engine ray")
    end_if_started_again()  # before anything is written
    folder = Path(folder).absolute()  # a worker elsewhere has another working directory
    scale = scale or Scale()
    pairs = [(one, other) for one in attacks for other in defences if only is None or only(one, other)]
    planned = _planned(pairs, seeds, folder, scale)
    with scratch_in(folder / "cells") as scratch:
        tasks = [CellTask(*cell, scale, path, scratch) for path, cell in planned.items()]
        cells = _run_missing(tasks, num_workers or num_cores(), engine, on_cell)
    table = [cells[task.path] for task in tasks]
    if not write:
        return table
    write_table(folder / TABLE, table)
    gather_insides(folder, [(task.path, cells[task.path]) for task in tasks])
    return table


def _planned(
    pairs: Sequence[tuple[Attack, Defence]], seeds: Sequence[int], folder: Path, scale: Scale
) -> dict[Path, tuple[Attack, Defence, int]]:
    """The cells by the files that they are kept in. Raises ``InputError`` for one that is there twice."""
    planned: dict[Path, tuple[Attack, Defence, int]] = {}
    for attack, defence in pairs:
        for seed in seeds:
            path = folder / "cells" / f"{cell_key(attack, defence, seed, scale)}.json"
            if path in planned:
                raise InputError(f"matrix: {attack.name} on {defence.name} with seed {seed} is there twice")
            planned[path] = (attack, defence, seed)
    return planned


def _run_missing(
    tasks: Sequence[CellTask], num_workers: int, engine: Engine, on_cell: OnCell | None
) -> dict[Path, Cell]:
    cells: dict[Path, Cell] = {}

    def keep(task: CellTask, cell: Cell) -> None:
        cells[task.path] = cell
        if on_cell is not None:
            on_cell(cell, len(cells), len(tasks))

    for task in tasks:
        cell = read_cell(task.path)
        if cell is not None and cell.status == "ok":
            keep(task, cell)
    # One seed of every cell first: a matrix that is stopped early has a whole table.
    missing = sorted((task for task in tasks if task.path not in cells), key=lambda task: task.seed)
    short_of_memory: list[CellTask] = []
    for done in _run_beside(missing, num_workers, engine):
        cell = _result(done.task, done.error)
        if cell.out_of_memory and num_workers > 1 and len(missing) > 1:
            short_of_memory.append(done.task)
        else:
            keep(done.task, cell)
    for task in short_of_memory:  # whatever took the memory has ended
        (done,) = _run_beside([replace(task, alone=True)], 1, engine)
        keep(task, _result(done.task, done.error))
    return cells


def _run_beside(tasks: Sequence[CellTask], num_workers: int, engine: Engine) -> Iterator[Done[CellTask]]:
    """Run tasks beside each other; yield them as they are finished."""
    if engine == "ray":
        return ray_through(tasks, run_on_cluster, num_workers)
    parts = [part for task in tasks for part in named_parts(task.defence, task.scale)]
    return work_through(tasks, run_task, num_workers, parts=parts)


def run_task(task: CellTask) -> None:
    """Run a cell in a worker and write it. If it fails, the reason is written in its place."""
    transformers_logging.disable_progress_bar()  # the matrix has one
    try:
        cell = run_cell(task.attack, task.defence, task.seed, task.scale, scratch=task.scratch, keep=task.path)
    except Exception as error:
        cell = replace(_failed(task, _reason(error)), out_of_memory=is_out_of_memory(error))
    write_cell(task.path, replace(cell, ran_alone=task.alone))


def run_on_cluster(task: CellTask) -> None:
    """Run a task in a worker on some machine, if the cell means the same there as where the run was started."""
    if not task.path.parent.is_dir():
        raise InputError(f"{task.path.parent}: not seen by every machine: the run's folder must be on a shared disk")
    if task.path.stem != cell_key(task.attack, task.defence, task.seed, task.scale):
        raise InputError("a machine has other code, libraries or model files than the one that started the run")
    run_task(task)


def _reason(error: Exception) -> str:
    """Why a cell failed. A user's mistake explains itself; for ours file and line are added."""
    if isinstance(error, InputError):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"


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
