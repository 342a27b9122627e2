"""The same with the real trainer: once at every kind of point, and (slow) every time it passes one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from crash.forked import die_at
from crash.kills import STEPS, Run, Whole, kill_and_resume, quick_place, undisturbed
from crash.trainer_run import trainer_run
from holdfast.training.checkpoints import durable


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with quick_place() as place:
        yield trainer_run(place)


@pytest.fixture(scope="module")
def whole(run: Run) -> Whole:
    return undisturbed(run)


@pytest.fixture
def place() -> Iterator[Path]:
    with quick_place() as path:
        yield path


def test_the_trainer_passes_every_point_and_leaves_a_model(whole: Whole) -> None:
    assert {point.split(":")[0] for point in whole.points} == set(durable.POINTS)
    assert len(whole.points) >= 100
    names = {"steps.jsonl", "model/model.safetensors", "checkpoints/step-000006/optimizer.safetensors"}
    assert names <= whole.result.keys()


@pytest.mark.parametrize("kind", durable.POINTS)
def test_the_trainer_killed_at_point(kind: str, run: Run, whole: Whole, place: Path) -> None:
    """In the middle of the run, when there is something to lose and something to do."""
    occurrences = whole.occurrences(kind)
    index = occurrences[len(occurrences) // 2]
    directory = place / str(index)
    kill_and_resume(run, directory, partial(run, directory, STEPS, die_at(index)), whole)


@pytest.mark.slow
@pytest.mark.parametrize("kind", durable.POINTS)
def test_the_trainer_killed_at_every_passing_of_a_point(kind: str, run: Run, whole: Whole, place: Path) -> None:
    for index in whole.occurrences(kind):
        directory = place / str(index)
        kill_and_resume(run, directory, partial(run, directory, STEPS, die_at(index)), whole)
