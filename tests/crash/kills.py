"""Killing a run and comparing its second life with a run that nobody disturbed.

``run`` is anything that trains in a directory up to a step, saves every second step, resumes by itself from the newest
good checkpoint, and tells ``on_point`` about the named points.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from crash.forked import Work, finish, in_child, preload
from holdfast.training.checkpoints import durable
from holdfast.training.checkpoints.folders import folder_name, newest_good, step_of, verify

STEPS = 6
SAVE_EVERY = 2
KILLED = -signal.SIGKILL
Run = Callable[[Path, int, Callable[[str], None]], None]


class Whole(NamedTuple):
    """The run that nobody disturbed: the points it passed, how often it wrote, and what it left."""

    points: list[str]
    num_writes: int
    result: dict[str, bytes]

    def occurrences(self, kind: str) -> list[int]:
        """When a point of this kind was passed: its places among all points."""
        return [index for index, point in enumerate(self.points) if point.split(":")[0] == kind]


@contextmanager
def quick_place() -> Iterator[Path]:
    """A folder in memory where there is one: unlike a power cut, a kill loses nothing handed to the system."""
    shm = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="holdfast-", dir=shm if os.access(shm, os.W_OK) else None))
    yield path
    shutil.rmtree(path)


def undisturbed(run: Run) -> Whole:
    """Run once to the end, noting everything."""
    with quick_place() as place:
        preload(lambda: run(place / "preload", SAVE_EVERY, lambda _: None))
        directory = place / "whole"
        lines = noted(run, directory)
        points = [line for line in lines if line != "(write)"]
        return Whole(points, len(lines) - len(points), result_of(directory))


def noted(run: Run, directory: Path) -> list[str]:
    """Run to the end in a child that must end well; the points it passed, and a line for each of its writes."""
    directory.mkdir(exist_ok=True)
    told = directory / "told"

    def work() -> None:
        with told.open("w") as file:

            def write(descriptor: int, data: memoryview) -> int:
                print("(write)", file=file)
                return os.write(descriptor, data)

            durable.write_some = write
            run(directory, STEPS, lambda point: print(point, file=file))

    finish(work, directory / "error")
    return told.read_text().splitlines()


def result_of(directory: Path) -> dict[str, bytes]:
    """Every byte that a run leaves and that must not depend on its interruptions (the model card names the folder)."""
    folders = (directory / "checkpoints" / folder_name(STEPS), directory / "model")
    files = [directory / "steps.jsonl", *(path for folder in folders for path in sorted(folder.rglob("*")))]
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in files
        if path.is_file() and path.name != "README.md"
    }


def check_after_kill(directory: Path) -> int:
    """Whatever is visible after a kill is whole, and as soon as one was saved there is one. The step to resume from."""
    checkpoints = directory / "checkpoints"
    for path in checkpoints.glob("step-*"):
        assert verify(path) == []
    newest, lines = newest_good(checkpoints)
    assert lines == []
    log = directory / "steps.jsonl"
    rows = log.read_text().count("\n") if log.exists() else 0
    step = step_of(newest) if newest else 0
    assert step >= (rows - 1) // SAVE_EVERY * SAVE_EVERY, "a saved checkpoint is gone"
    return step


def check_resumes(run: Run, directory: Path, whole: Whole) -> None:
    """The second life goes on from the checkpoint, and leaves bitwise what the undisturbed run left; nothing else."""
    start = check_after_kill(directory)
    points = noted(run, directory)
    assert points.count("before-temp") == (STEPS - start) // SAVE_EVERY
    assert result_of(directory) == whole.result
    assert [path.name for path in (directory / "checkpoints").iterdir()] == [folder_name(STEPS)]


def kill_and_resume(run: Run, directory: Path, work: Work, whole: Whole) -> None:
    """A first life, which must end by SIGKILL, and a second."""
    directory.mkdir()
    code = in_child(work, directory / "error")
    assert code == KILLED, f"exit code {code}: {(directory / 'error').read_text() if code == 1 else ''}"
    check_resumes(run, directory, whole)
