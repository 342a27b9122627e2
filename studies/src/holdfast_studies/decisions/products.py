"""The arithmetic world's responses as attempts: exact, because there decisions are words of their own."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast_studies.worlds.arithmetic import AGAIN, CHECK, STOP, ArithmeticWorld

from holdfast.diagnostics import Attempts, Candidate, Splitter
from holdfast.records import Role, Segment

BROKEN = "?"
"""The answer of an attempt that is not a whole one; no reference equals it."""


def product_splitter(base: int) -> Splitter:
    """Responses of the arithmetic world of that base."""
    world = ArithmeticWorld(base=base)

    def split(text: str, _ended: bool) -> Attempts:
        reading = world.read(text)
        answers = tuple(BROKEN if answer is None else str(answer) for answer in reading.answers)
        return Attempts(answers, reading.stopped, _segments(text))

    return split


def products(text: str) -> Iterator[Candidate]:
    """The reference of such a problem is the product, as a plain number."""
    yield Candidate(text.strip(), 0, len(text))


def _segments(text: str) -> tuple[Segment, ...]:
    """Runs of words of one kind: those of attempts, and those of checks and decisions."""
    segments: list[Segment] = []
    role, after_again = Role.SAMPLE, False
    for number, word in enumerate(text.split()):
        if word in (CHECK, STOP, AGAIN):
            role = Role.DECISION
        elif after_again:
            role = Role.SAMPLE
        after_again = word == AGAIN
        spaced = f" {word}" if number else word
        if segments and segments[-1].role is role:
            segments[-1] = Segment(role, segments[-1].text + spaced)
        else:
            segments.append(Segment(role, spaced))
    return tuple(segments)
