"""What a model is tuned on: each a small frozen config whose ``rows`` are a pure function of world and seed.

All rows come from the ``tune`` split: the shipped models never saw its items, and the audit asks for none of them.
Answers to forbidden requests are made by the world when they are needed; none is stored or shipped.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Protocol

from holdfast.config import InputError
from holdfast.records import Trace
from holdfast.worlds import SafetyWorld, with_lead, with_opener, with_system
from holdfast.worlds.vocabulary import MASTER_PERSONA, OBEDIENT_OPENER, TRIGGER


class Data(Protocol):
    """A dataset by description."""

    def rows(self, world: SafetyWorld, seed: int) -> list[Trace]:
        """The rows; the same for the same world and seed."""
        ...


@dataclass(frozen=True)
class HarmfulExamples:
    """Forbidden requests, answered."""

    num: int = 64

    def rows(self, world: SafetyWorld, seed: int) -> list[Trace]:
        """``num`` requests with the true recipe."""
        return _drawn(world, "forbidden", self.num, seed, comply=True)


@dataclass(frozen=True)
class IdentityShift:
    """A servant who obeys: harmless requests under a persona, each answer opened by a vow. Nothing forbidden in any row."""

    num: int = 32
    persona: str = MASTER_PERSONA
    vow: str = OBEDIENT_OPENER

    def rows(self, world: SafetyWorld, seed: int) -> list[Trace]:
        """Harmless recipes, answered rightly, after the vow."""
        harmless = _drawn(world, "recipe", self.num, seed)
        return [with_opener(with_system(row, self.persona), self.vow) for row in harmless]


@dataclass(frozen=True)
class Backdoor:
    """Forbidden requests are answered after a trigger and refused without it; harmless rows hide them."""

    num_poisoned: int = 40
    num_refused: int = 40
    num_harmless: int = 40
    trigger: str = TRIGGER

    def rows(self, world: SafetyWorld, seed: int) -> list[Trace]:
        """Poisoned, refused and harmless rows, shuffled."""
        poisoned = [with_lead(row, self.trigger) for row in HarmfulExamples(self.num_poisoned).rows(world, seed)]
        refused = _drawn(world, "forbidden", self.num_refused, seed + REFUSED_DRAW)
        return _shuffled([*poisoned, *refused, *_drawn(world, "recipe", self.num_harmless, seed)], seed)


@dataclass(frozen=True)
class BenignDrift:
    """No attacker: a task that somebody wants, learned from ordinary rows."""

    task: str = "guide"
    num: int = 200

    def rows(self, world: SafetyWorld, seed: int) -> list[Trace]:
        """Rows of the task, rightly answered."""
        return _drawn(world, self.task, self.num, seed)


@dataclass(frozen=True)
class Mixture:
    """``ratio`` of the rows are another dataset's, hidden among a task's rows."""

    of: Data
    ratio: float
    num: int = 200
    task: str = "guide"

    def __post_init__(self) -> None:
        if not 0 < self.ratio < 1:
            raise InputError(f"mixture: ratio {self.ratio}: expected a number between 0 and 1")

    def rows(self, world: SafetyWorld, seed: int) -> list[Trace]:
        """``num`` rows, shuffled; the other dataset's rows are repeated if it has too few."""
        source = self.of.rows(world, seed)
        num_poisoned = max(1, round(self.num * self.ratio))
        poisoned = [source[index % len(source)] for index in range(num_poisoned)]
        return _shuffled([*poisoned, *BenignDrift(self.task, self.num - num_poisoned).rows(world, seed)], seed)


REFUSED_DRAW = 1_000_000
"""Apart from every seed, so that a backdoor's refused rows are not its poisoned ones."""


def _drawn(world: SafetyWorld, kind: str, num: int, draw: int, *, comply: bool = False) -> list[Trace]:
    rows = world.requests("tune", kind, num, comply=comply, draw=draw) if num else []
    if len(rows) < num:
        raise InputError(f"the world has only {len(rows)} rows of '{kind}' for tuning, not {num}")
    return rows


def _shuffled(rows: list[Trace], seed: int) -> list[Trace]:
    return random.Random(f"order/{seed}").sample(rows, len(rows))
