"""Trainings side by side, with real processes."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import pytest
import torch

from holdfast_studies.pool import in_processes
from waiting import wait_for


def process_of(number: str) -> int:
    int(number)
    return os.getpid()


def long_or_short(mark: Path) -> tuple[str, int, int]:
    """The long task ends when the three short ones have left their marks; -> name, process, threads."""
    if mark.name == "long":
        wait_for(lambda: len(list(mark.parent.iterdir())) == 3)
    mark.touch()
    return mark.name, os.getpid(), torch.get_num_threads()


def test_one_worker_is_this_process_and_keeps_the_order() -> None:
    assert list(in_processes(str, [3, 1, 2], 1)) == ["3", "1", "2"]
    assert list(in_processes(process_of, ["1"], 8)) == [os.getpid()], "nothing to share"


def test_this_process_takes_the_first_task_and_the_others_meanwhile_the_rest(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        results = list(in_processes(long_or_short, [tmp_path / name for name in ("long", "a", "b", "c")], 2))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert [name for name, *_ in results] == ["long", "a", "b", "c"]
    here, *there = (process for _, process, _ in results)
    assert here == os.getpid()
    assert here not in there
    assert {threads for *_, threads in results} == {1}


@pytest.mark.parametrize("tasks", [["1", "2", "no"], ["no", "1", "2"]])
def test_an_error_comes_through_from_wherever_it_happened(tasks: list[str]) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        list(in_processes(process_of, tasks, 2))


class Knot:
    """Holds on to itself, as a trainer does."""

    def __init__(self) -> None:
        self.itself = self


KNOTS: list[weakref.ref[Knot]] = []


def num_knots_before(_: int) -> int:
    there = sum(knot() is not None for knot in KNOTS)
    KNOTS.append(weakref.ref(Knot()))
    return there


def test_what_a_task_held_is_freed_before_the_next() -> None:
    assert list(in_processes(num_knots_before, [0, 1, 2], 1)) == [0, 0, 0]
