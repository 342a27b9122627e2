"""Worker processes: all of them start at once, whatever the size of their tasks, and Ctrl-C ends the work."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.attacks import workers


class Task(NamedTuple):
    name: str
    folder: Path
    load: bytes = bytes(4 * 2**20)  # more than a pipe holds


def leave_a_mark(task: Task) -> None:
    (task.folder / task.name).touch()


def test_no_worker_waits_until_another_has_read_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker needs seconds to import torch: one after the other, a dozen would take the better part of a minute."""
    start, give = workers._started, workers._give
    events: list[str] = []

    def started(function: Callable[[Task], None], **how: Any) -> workers._Worker:
        events.append("start")
        return start(function, **how)

    def given(*work: Any) -> None:
        events.append("give")
        give(*work)

    monkeypatch.setattr(workers, "_started", started)
    monkeypatch.setattr(workers, "_give", given)
    done = list(workers.work_through([Task(name, tmp_path) for name in "abc"], leave_a_mark, 3))
    assert sorted(each.task.name for each in done) == ["a", "b", "c"]
    assert all(each.error is None for each in done)
    assert sorted(mark.name for mark in tmp_path.iterdir()) == ["a", "b", "c"]
    assert events[:4] == ["start", "start", "start", "give"]


class PressesCtrlC:
    """Python drops what a destructor raises, KeyboardInterrupt too."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def press_ctrl_c_after_every_task(done: Iterator[workers.Done[Task]], names: list[str]) -> None:
    for task, _ in done:
        names.append(task.name)
        PressesCtrlC()  # nobody holds it: its destructor runs here


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_in_a_destructor_still_ends_the_work(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    done = workers.work_through([Task(name, tmp_path) for name in "abcd"], leave_a_mark, 1)
    names: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c_after_every_task(done, names)
    assert names == ["a"]
    assert signal.getsignal(signal.SIGINT) == before
