"""Trainings side by side, with real processes."""

from __future__ import annotations

import os

import pytest

from holdfast.diagnostics.pool import work_through


def process_of(number: str) -> int:
    int(number)
    return os.getpid()


def test_one_worker_is_this_process_and_keeps_the_order() -> None:
    assert list(work_through(str, [3, 1, 2], 1)) == ["3", "1", "2"]
    assert list(work_through(process_of, ["1"], 8)) == [os.getpid()], "nothing to share"


def test_several_are_other_processes_and_an_error_comes_through() -> None:
    results = work_through(process_of, ["1", "2", "3", "no"], 2)
    assert next(results) != os.getpid()
    with pytest.raises(ValueError, match="invalid literal"):
        list(results)
