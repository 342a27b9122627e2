"""Rewards of responses that have been taken apart: for the final answer, for its digits, for every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.diagnostics.attempts import Attempts
from holdfast.records import Role

EPSILON = 1e-4  # TRL's, in the group's spread


@dataclass(frozen=True)
class Scored:
    """A response, the problem it answers, and the reference."""

    problem: str
    attempts: Attempts
    reference: str

    @property
    def right(self) -> list[bool]:
        """Was each attempt right, in order."""
        return [answer == self.reference for answer in self.attempts.answers]


def outcome(scored: Scored) -> float:
    """1 if it stopped on the right answer ([004] §3.1)."""
    return float(scored.attempts.stopped and bool(scored.right) and scored.right[-1])


def partial_credit(scored: Scored) -> float:
    """The share of the last answer's characters that agree with the reference, counted from the right."""
    if not (scored.attempts.stopped and scored.attempts.answers):
        return 0.0
    pairs = list(zip(reversed(scored.attempts.answers[-1]), reversed(scored.reference), strict=False))
    longest = max(len(scored.attempts.answers[-1]), len(scored.reference))
    return sum(mine == theirs for mine, theirs in pairs) / longest


def process_rewards(scored: Scored) -> list[float]:
    """One reward per segment: 1 for a right attempt; 1 for a right decision (stop on right, go on from wrong)."""
    rewards: list[float] = []
    attempt = -1
    right = scored.right
    for segment in scored.attempts.segments:
        if segment.role is Role.SAMPLE:
            attempt = min(attempt + 1, len(right) - 1)
            rewards.append(float(right[attempt]) if right else 0.0)
        else:
            went_on = attempt + 1 < len(right)
            rewards.append(float(bool(right) and right[max(attempt, 0)] != went_on))
    return rewards


def group_advantages(rewards: Sequence[float], problems: Sequence[str]) -> list[float]:
    """(R - mean) / (std + eps) among the responses to one problem; a problem with one response is set against them all."""
    values, names = np.asarray(rewards, float), np.asarray(problems)
    advantages = np.zeros(len(values))
    for name in dict.fromkeys(problems):
        is_group = names == name
        group = values[is_group] if is_group.sum() > 1 else values
        spread = group.std(ddof=1) if len(group) > 1 else 0.0
        advantages[is_group] = (values[is_group] - group.mean()) / (spread + EPSILON)
    return [float(value) for value in advantages]
