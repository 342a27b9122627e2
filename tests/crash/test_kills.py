"""SIGKILL at every named point of saving, and in the middle of every write: the run goes on as if nothing had happened.

To try another trainer, replace ``run``: anything that trains in a directory up to a step, resumes by itself, and tells
``on_point`` about the named points.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from forked import die_at, die_in_write, finish, go_on, in_child, preload, start_child
from small_run import run

from holdfast.training import durable
from holdfast.training.checkpoints import folder_name, verify

STEPS = 6
KILLED = -signal.SIGKILL


class Whole(NamedTuple):
    """The run that nobody disturbed."""

    points: list[str]
    num_writes: int
    result: dict[str, bytes]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory where there is one: unlike a power cut, a kill loses nothing handed to the system."""
    shm = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="holdfast-", dir=shm if os.access(shm, os.W_OK) else None))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    preload(lambda: run(tmp_path_factory.mktemp("preload"), 2, go_on))
    directory = tmp_path_factory.mktemp("whole")
    told = directory / "told"

    def work() -> None:
        with told.open("w") as file:
            write = durable.write_some

            def counted(descriptor: int, data: memoryview) -> int:
                print("(write)", file=file)
                return write(descriptor, data)

            durable.write_some = counted
            run(directory, STEPS, lambda point: print(point, file=file))

    finish(work, directory / "error")
    lines = told.read_text().splitlines()
    points = [line for line in lines if line != "(write)"]
    return Whole(points, len(lines) - len(points), result_of(directory))


def result_of(directory: Path) -> dict[str, bytes]:
    """Every byte that a run leaves and that must not depend on its interruptions."""
    last = directory / "checkpoints" / folder_name(STEPS)
    files = {str(path.relative_to(directory)): path.read_bytes() for path in sorted(last.rglob("*"))}
    return {"steps.jsonl": (directory / "steps.jsonl").read_bytes(), **files}


def check_after_kill(directory: Path) -> None:
    """Whatever is visible after a kill is whole: there is no checkpoint that only looks good."""
    for path in (directory / "checkpoints").glob("step-*"):
        assert verify(path) == []


def check_resumes(directory: Path, whole: Whole) -> None:
    """Resume to the end: bitwise the result of the undisturbed run, and nothing left lying about."""
    finish(partial(run, directory, STEPS, go_on), directory / "error")
    assert result_of(directory) == whole.result
    assert sorted(path.name for path in (directory / "checkpoints").iterdir()) == [folder_name(STEPS)]


def kill_and_resume(directory: Path, work: Callable[[], None], whole: Whole) -> None:
    directory.mkdir()
    assert in_child(work, directory / "error") == KILLED
    check_after_kill(directory)
    check_resumes(directory, whole)


def test_there_are_enough_points(whole: Whole) -> None:
    assert len({point.split(":")[0] for point in whole.points}) == len(durable.POINTS) >= 12
    assert len(whole.points) >= 100
    files = {name for name in whole.result if name != "steps.jsonl"}
    assert {f"checkpoints/step-000006/{name}" for name in ("model.safetensors", "MANIFEST.json")} <= files


@pytest.mark.parametrize("kind", durable.POINTS)
def test_killed_at_point(kind: str, whole: Whole, place: Path) -> None:
    """Every time the run passes a named point, in every save and for every file."""
    occurrences = [index for index, point in enumerate(whole.points) if point.split(":")[0] == kind]
    assert occurrences
    for index in occurrences:
        directory = place / str(index)
        kill_and_resume(directory, partial(run, directory, STEPS, die_at(index)), whole)


def test_killed_in_the_middle_of_a_write(whole: Whole, place: Path) -> None:
    """Torn rows of steps.jsonl, torn state and torn manifests."""
    for index in range(whole.num_writes):
        directory = place / str(index)

        def work(directory: Path = directory, index: int = index) -> None:
            die_in_write(index)
            run(directory, STEPS, go_on)

        kill_and_resume(directory, work, whole)


def test_killed_in_the_middle_of_a_tensor_file(whole: Whole, place: Path) -> None:
    """safetensors writes these, not our file layer, so the torn file is made by cutting it before the kill."""
    torn = [i for i, point in enumerate(whole.points) if point.startswith("after-file:") and point.endswith("tensors")]
    assert len(torn) >= 3
    for index in torn:
        directory = place / str(index)

        def cut(point: str, directory: Path = directory) -> None:
            (path,) = (directory / "checkpoints").glob(f".tmp-*/{point.partition(':')[2]}")
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

        kill_and_resume(directory, partial(run, directory, STEPS, die_at(index, cut)), whole)


def test_killed_again_and_again(whole: Whole, place: Path) -> None:
    """A run that never lives long: each life is about as long as it takes to save once."""
    draw = random.Random(3)
    lives = 1
    while in_child(partial(run, place, STEPS, die_at(draw.randrange(20, 45))), place / "error") == KILLED:
        check_after_kill(place)
        lives += 1
        assert lives < 50
    assert lives > 3
    check_resumes(place, whole)


def test_killed_from_outside_at_any_moment(whole: Whole, place: Path) -> None:
    """No named point at all: the kill comes when it comes."""
    start = time.monotonic()
    (place / "timed").mkdir()
    finish(partial(run, place / "timed", STEPS, go_on), place / "error")
    seconds = time.monotonic() - start
    for life in range(10):
        directory = place / str(life)
        directory.mkdir()
        pid = start_child(partial(run, directory, STEPS, go_on), directory / "error")
        time.sleep(seconds * (life + 1) / 11)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        check_after_kill(directory)
        check_resumes(directory, whole)
