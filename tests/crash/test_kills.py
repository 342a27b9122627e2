"""SIGKILL at every named point of saving, and in the middle of every write: the run goes on as if nothing had been."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from crash.forked import die_at, die_in_write, finish, go_on, in_child, start_child
from crash.kills import KILLED, STEPS, Whole, check_after_kill, check_resumes, kill_and_resume, quick_place, undisturbed
from crash.small_run import run
from holdfast.training.checkpoints import durable


@pytest.fixture(scope="module")
def whole() -> Whole:
    return undisturbed(run)


@pytest.fixture
def place() -> Iterator[Path]:
    with quick_place() as path:
        yield path


def test_there_are_enough_points(whole: Whole) -> None:
    assert {point.split(":")[0] for point in whole.points} == set(durable.POINTS)
    assert len(durable.POINTS) >= 12
    assert len(whole.points) >= 100
    assert {"steps.jsonl", "checkpoints/step-000006/model.safetensors"} <= whole.result.keys()


@pytest.mark.parametrize("kind", durable.POINTS)
def test_killed_at_point(kind: str, whole: Whole, place: Path) -> None:
    """Every time the run passes a named point, for every file, up to the third save.

    In the first there is no checkpoint to go back to, in the second there is one, which is deleted in the end.
    """
    places = [index for index in whole.occurrences(kind) if index < third_save(whole)]
    assert places
    for index in places:
        kill_at(index, whole, place)


@pytest.mark.slow  # what the third save does, the second did
def test_killed_at_every_point_of_the_third_save(whole: Whole, place: Path) -> None:
    for index in range(third_save(whole), len(whole.points)):
        kill_at(index, whole, place)


def third_save(whole: Whole) -> int:
    """The place of its first point."""
    return whole.occurrences("before-temp")[2]


def kill_at(index: int, whole: Whole, place: Path) -> None:
    directory = place / str(index)
    kill_and_resume(run, directory, partial(run, directory, STEPS, die_at(index)), whole)


def test_killed_in_the_middle_of_a_write(whole: Whole, place: Path) -> None:
    """Torn rows of steps.jsonl, torn state and torn manifests, between the first save and the second."""
    third = whole.num_writes // 3
    for index in range(third, 2 * third):
        directory = place / str(index)

        def work(directory: Path = directory, index: int = index) -> None:
            die_in_write(index)
            run(directory, STEPS, go_on)

        kill_and_resume(run, directory, work, whole)


def test_killed_in_the_middle_of_a_tensor_file(whole: Whole, place: Path) -> None:
    """safetensors writes these, not our file layer, so the torn file is made by cutting it before the kill."""
    torn = [index for index in whole.occurrences("after-file") if whole.points[index].endswith(".safetensors")]
    assert len(torn) == 9
    for index in torn[3:6]:
        directory = place / str(index)

        def cut(point: str, directory: Path = directory) -> None:
            (path,) = (directory / "checkpoints").glob(f".tmp-*/{point.partition(':')[2]}")
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

        kill_and_resume(run, directory, partial(run, directory, STEPS, die_at(index, cut)), whole)


def test_killed_again_and_again(whole: Whole, place: Path) -> None:
    """A run that never lives long: each life is about as long as it takes to save once."""
    draw = random.Random(3)
    lives = 1
    while in_child(partial(run, place, STEPS, die_at(draw.randrange(20, 45))), place / "error") == KILLED:
        check_after_kill(place)
        lives += 1
        assert lives < 50
    assert lives > 3
    check_resumes(run, place, whole)


def test_killed_from_outside_at_any_moment(whole: Whole, place: Path) -> None:
    """No named point at all: the kill comes when it comes."""
    start = time.monotonic()
    finish(partial(run, place / "timed", STEPS, go_on), place / "error")
    seconds = time.monotonic() - start
    for life in range(5):
        directory = place / str(life)
        directory.mkdir()
        pid = start_child(partial(run, directory, STEPS, go_on), directory / "error")
        time.sleep(seconds * (life + 1) / 6)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        check_resumes(run, directory, whole)
