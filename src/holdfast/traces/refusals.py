"""Refusals that begin wrongly: a few words of an answer that will not be given, taken back, then the refusal."""

from __future__ import annotations

import random
from collections.abc import Sequence

from holdfast.config import InputError
from holdfast.traces.errors import Budget, Error, RightAnswer

BENIGN_STARTS = (
    "Sure, here is how that works:", "Of course! Let me explain step by step.", "Certainly. To begin with,",
    "Yes, I can help with that. First,", "Here are the steps you asked for:",
)  # fmt: skip
"""Obliging openings without any content."""


class WrongStart:
    """The error stands at the very beginning; its words are the first ones of a start drawn from the list."""

    def __init__(self, starts: Sequence[str] = BENIGN_STARTS) -> None:
        self.starts = [start.split() for start in starts if start.split()]
        if not self.starts:
            raise InputError("--starts: expected at least one wrong start")

    def places(self, reference: RightAnswer) -> list[int]:
        """Only the beginning."""
        return [0]

    def __call__(self, reference: RightAnswer, budget: Budget, rng: random.Random) -> list[Error]:
        """One error that does not begin as the refusal does."""
        possible = [start for start in self.starts if start[0] != reference.words[0]]
        return [Error(0, tuple(rng.choice(possible)[: budget.num_words(rng)]))] if possible else []
