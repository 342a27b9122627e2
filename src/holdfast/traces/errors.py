"""Wrong spans written into a reference answer: each is taken back where it stands, so undoing gives the reference again."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Protocol

from holdfast.config import InputError
from holdfast.records import Role, Segment, Trace, Turn

PUNCTUATION = ".,;:?!()"


class Error(NamedTuple):
    """A wrong span, written before piece ``at`` of the reference and then taken back."""

    at: int
    words: tuple[str, ...]  # bare: the spaces before them follow from where they stand


@dataclass(frozen=True)
class RightAnswer:
    """A conversation whose last answer is right; the answers before it are context."""

    trace: Trace

    def __post_init__(self) -> None:
        last = self.trace.turns[-1]
        if last.speaker != "assistant" or not last.is_target:
            begins = self.trace.turns[0].visible[:80]
            raise InputError(
                f"traces are made of conversations that end in an answer; that which begins {begins!r} does not"
            )
        if not last.visible.strip():
            request = self.trace.turns[-2].visible if len(self.trace.turns) > 1 else ""
            raise InputError(f"traces are made of answers that say something; that to {request[:80]!r} is empty")
        if last.fields:
            raise InputError(
                f"traces are made of answers without thoughts; that which begins {last.visible[:80]!r} has some"
            )

    @cached_property
    def pieces(self) -> list[str]:
        """The answer cut before every space: words with the space in front of them. Joined, they are the answer."""
        return re.findall(r"\s*\S+(?:\s+\Z)?", self.text)

    @cached_property
    def words(self) -> list[str]:
        """The pieces without their spaces."""
        return [piece.strip() for piece in self.pieces]

    @property
    def text(self) -> str:
        """The answer."""
        return self.trace.turns[-1].visible

    @cached_property
    def asked(self) -> dict[str, None]:
        """The words of everything before the answer, bare of punctuation, in order and without repetition."""
        words = (word for turn in self.trace.turns[:-1] for word in turn.visible.split())
        return dict.fromkeys(word.strip(PUNCTUATION) for word in words)


@dataclass(frozen=True)
class Budget:
    """How many errors an answer gets, and how many words each has."""

    errors: tuple[int, int] = (1, 2)
    length: tuple[int, int] = (1, 3)

    def __post_init__(self) -> None:
        for name, (low, high) in (("errors", self.errors), ("length", self.length)):
            if not 1 <= low <= high:
                raise InputError(f"{name}: expected MIN-MAX with 1 <= MIN <= MAX, not {low}-{high}")

    def places(self, possible: Sequence[int], rng: random.Random) -> list[int]:
        """As many different places as are wanted, or as there are; in order."""
        return sorted(rng.sample(possible, min(len(possible), rng.randint(*self.errors))))

    def num_words(self, rng: random.Random) -> int:
        """The length of one error."""
        return rng.randint(*self.length)


class Builder(Protocol):
    """Finds errors for an answer: at different places, in order; none where it knows none."""

    def places(self, reference: RightAnswer) -> Sequence[int]:
        """Where an error could be written."""
        ...

    def __call__(self, reference: RightAnswer, budget: Budget, rng: random.Random) -> list[Error]:
        """The errors to write into this answer."""
        ...


def with_errors(reference: RightAnswer, errors: Sequence[Error]) -> Trace:
    """The trace: prefix, then for every error its words, an undo, and the reference from there on ([000]).

    Without errors it is the plain answer.
    """
    turns = reference.trace.turns
    before = tuple(turn.as_context() for turn in turns[:-1])
    if not errors:
        return Trace((*before, Turn("assistant", (Segment(Role.RESPONSE, reference.text),))))
    pieces, places = reference.pieces, [error.at for error in errors]
    assert all(here < there for here, there in pairwise(places)), "one error at a place, in order"
    segments = [Segment(Role.PREFIX, "".join(pieces[: places[0]]))]
    for error, end in zip(errors, [*places[1:], len(pieces)], strict=True):
        segments += [Segment(Role.ERROR, _spelled(error, pieces)), Segment(Role.UNDO)]
        segments.append(Segment(Role.CORRECTION, "".join(pieces[error.at : end])))
    kept = tuple(segment for segment in segments if segment.text or segment.role is Role.UNDO)
    return Trace((*before, Turn("assistant", kept)))


def _spelled(error: Error, pieces: Sequence[str]) -> str:
    """The error's text with the space that the right word has here, so that its first space does not give it away."""
    here = pieces[error.at] if error.at < len(pieces) else " "
    space = here[: len(here) - len(here.lstrip())]
    return space + " ".join(error.words)
