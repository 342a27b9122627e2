"""Rewards of responses that have been taken apart, worked by hand."""

from math import sqrt

import pytest

from holdfast.diagnostics.attempts import Attempts
from holdfast.diagnostics.rewards import EPSILON, Scored, group_advantages, outcome, partial_credit, process_rewards
from holdfast.records import Role, Segment

SEGMENTS = tuple(Segment(role, "x") for role in (Role.SAMPLE, Role.DECISION, Role.SAMPLE, Role.DECISION))


def scored(reference: str, answers: tuple[str, ...] = ("7", "123"), *, stopped: bool = True) -> Scored:
    return Scored("problem", Attempts(answers, stopped, SEGMENTS), reference)


def test_the_last_answer_counts_and_only_if_it_stopped() -> None:
    assert [outcome(scored(right)) for right in ("123", "7")] == [1.0, 0.0]
    assert outcome(scored("123", stopped=False)) == outcome(scored("123", ())) == 0.0


def test_digits_are_compared_from_the_right() -> None:
    """123 against 23: two of three agree; against 1: the last digits differ, and one of three places has none to agree."""
    assert [partial_credit(scored(right)) for right in ("123", "23", "1", "1123")] == [1.0, 2 / 3, 0.0, 3 / 4]
    assert partial_credit(scored("123", stopped=False)) == 0.0


def test_steps_are_rewarded_by_hand() -> None:
    """Wrong, goes on (right to do so), right, stops (right to do so); and the same response where the first was right."""
    assert process_rewards(scored("123")) == [0.0, 1.0, 1.0, 1.0]
    assert process_rewards(scored("7")) == [1.0, 0.0, 0.0, 0.0]


def test_advantages_within_a_problem_by_hand() -> None:
    """1 and 0: mean 1/2, spread 1/sqrt 2. A problem with one response is set against all: mean 1/3, spread 1/sqrt 3."""
    found = group_advantages([1.0, 0.0, 0.0], ["a", "b", "a"])
    own, alone = 0.5 / (1 / sqrt(2) + EPSILON), -1 / 3 / (1 / sqrt(3) + EPSILON)
    assert found == pytest.approx([own, alone, -own])
