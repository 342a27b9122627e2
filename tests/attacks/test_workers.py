"""Worker processes: all of them start at once, whatever the size of their tasks."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.attacks import workers


class Task(NamedTuple):
    name: str
    folder: Path
    load: bytes = bytes(4 * 2**20)  # more than a pipe holds


def note_the_time(task: Task) -> None:
    (task.folder / task.name).write_text(str(time.monotonic()))


def test_no_worker_waits_until_another_has_read_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker needs seconds to import torch: one after the other, a dozen would take the better part of a minute."""
    start, started = workers._started, []

    def timed(function: Callable[[Task], None]) -> workers._Worker:
        started.append(time.monotonic())
        return start(function)

    monkeypatch.setattr(workers, "_started", timed)
    done = list(workers.work_through([Task(name, tmp_path) for name in "abc"], note_the_time, 3))
    assert sorted(each.task.name for each in done) == ["a", "b", "c"]
    assert all(each.error is None for each in done)
    assert max(started) + 0.1 < min(float(file.read_text()) for file in tmp_path.iterdir())
