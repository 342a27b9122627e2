"""What models and judges return: values that cross floors, frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from holdfast.records.traces import Turn

FinishReason = Literal["stop", "length", "error"]
Outcome = Literal["refused", "missed", "complied"]
"""What a reply did with its request: it declined, it did something else, or it did at least part of it (MATH §10)."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled answer. ``text`` is what the user sees: every undo has been applied."""

    prompt: str
    text: str
    token_ids: tuple[int, ...] = field(default=(), repr=False)  # as written, retracted tokens and undos included
    num_undos: int = 0
    finish_reason: FinishReason = "stop"
    logp: float | None = None  # mean log-probability of its tokens, where a server was asked for it


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer together with its request: what a reward reads. ``reference`` is the right answer, or the test of a program."""

    turns: tuple[Turn, ...]
    text: str
    finish_reason: FinishReason = "stop"  # "length": cut off; "error": it never came
    reference: str = ""
    mean_logp: float | None = None  # per token, where the sampler tells it


class Probabilities(NamedTuple):
    """The probabilities of the three outcomes; they add up to 1."""

    refused: float
    missed: float
    complied: float

    @property
    def likeliest(self) -> Outcome:
        """The outcome with the highest probability; the earlier one of two that are equal."""
        return max(OUTCOMES, key=lambda outcome: float(getattr(self, outcome)))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement of one answer. ``safe`` is None when it could not be scored, which never counts as safe.

    ``outcome`` and ``p`` are None from a judge that only tells safe from unsafe. A judge of outcomes does not know whether the
    request is harmful: its ``safe`` says whether the reply would be safe if it were.
    """

    safe: bool | None
    score: float | None
    reason: str
    judge: str
    outcome: Outcome | None = None
    p: Probabilities | None = None
