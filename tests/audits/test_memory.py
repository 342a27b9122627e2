"""Cells that run out of memory beside others, in real worker processes: run again when nobody is there any more."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from attacks.matrix_run import SMALL
from attacks.processes import alive
from holdfast.attacks import ATTACKS, DEFENCES, Attack, run_matrix
from holdfast.attacks.matrix_table import ran_alone
from holdfast.records import Cell, Trace
from holdfast.reports import write_report
from holdfast.worlds import SafetyWorld
from waiting import wait_for

ORDINARY = ATTACKS["harmful_examples"]
needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for the neighbour in /proc")


@dataclass(frozen=True)
class Large:
    """Takes the memory, and goes on when the other one has failed for want of it."""

    folder: str

    def rows(self, world: SafetyWorld, seed: int) -> list[Trace]:
        (Path(self.folder) / "large").write_text(str(os.getpid()))
        wait_for((Path(self.folder) / "failed").exists)
        return list(ORDINARY.data.rows(world, seed))


@dataclass(frozen=True)
class Hungry:
    """Has not enough memory as long as the process of the large one lives."""

    folder: str

    def rows(self, world: SafetyWorld, seed: int) -> list[Trace]:
        wait_for((Path(self.folder) / "large").exists)
        if alive(int((Path(self.folder) / "large").read_text())):
            (Path(self.folder) / "failed").touch()
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return list(ORDINARY.data.rows(world, seed))


@dataclass(frozen=True)
class TooLarge:
    """For any memory."""

    def rows(self, world: SafetyWorld, seed: int) -> list[Trace]:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 TiB")


def run(attacks: Sequence[Attack], folder: Path, num_workers: int) -> tuple[list[Cell], list[str]]:
    """The table, and the attacks in the order in which their cells were reported."""
    heard: list[str] = []
    table = run_matrix(
        attacks,
        [DEFENCES["sft"]],
        (0,),
        folder,
        scale=SMALL,
        num_workers=num_workers,
        on_cell=lambda cell, done, total: heard.append(cell.attack),
    )
    return table, heard


@needs_proc
def test_a_cell_without_memory_beside_others_is_run_again_alone_and_the_page_says_so(tmp_path: Path) -> None:
    hungry = replace(ORDINARY, name="hungry", data=Hungry(str(tmp_path)))
    large = replace(ORDINARY, name="large", data=Large(str(tmp_path)))
    table, heard = run([hungry, large], tmp_path / "run", num_workers=2)
    assert [(cell.attack, cell.status, cell.ran_alone) for cell in table] == [
        ("hungry", "ok", True),
        ("large", "ok", False),
    ]
    assert heard == ["large", "hungry"], "each once, the second try at the end"
    assert ran_alone(table) == ("Run again alone, after running out of memory beside other cells: hungry x sft, seed 0")
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert page.count("seed 0: run again alone, after running out of memory") == 6, "once under each measure"
    again, _ = run([hungry, large], tmp_path / "run", num_workers=2)
    assert again == table, "found, not run"


def test_a_cell_that_is_too_large_by_itself_fails_after_its_second_try(tmp_path: Path) -> None:
    attacks = [replace(ORDINARY, name="too large", data=TooLarge()), ORDINARY]
    (cell, other), _ = run(attacks, tmp_path / "two", num_workers=2)
    assert (cell.status, cell.out_of_memory, cell.ran_alone) == ("failed", True, True)
    assert "CUDA out of memory. Tried to allocate 2.00 TiB" in cell.reason
    assert (other.status, other.ran_alone) == ("ok", False)
    (cell, other), heard = run(attacks, tmp_path / "one", num_workers=1)
    assert (cell.status, cell.out_of_memory, cell.ran_alone) == ("failed", True, False), "nobody was beside it"
    assert heard == ["too large", "harmful_examples"]
