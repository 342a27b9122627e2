"""Products as attempts and decisions, in the arithmetic world's words and in plain ones; decisions have words of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.diagnostics import Attempts, Candidate, Splitter, token_splitter
from holdfast.records import Role, Segment
from holdfast_studies.worlds import arithmetic_text as plain
from holdfast_studies.worlds.arithmetic import AGAIN, CHECK, STOP, ArithmeticWorld

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
    """The reference answer of a problem: the product as a plain number."""
    yield Candidate(text.strip(), 0, len(text))


def _segments(text: str) -> tuple[Segment, ...]:
    """The text in runs of one role: attempts, or checks and decisions."""
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


# --- in plain words -------------------------------------------------------------------------------------------------

_STATED = re.compile(rf"{plain.ANSWER}\s*(\d[\d,]*)")


def stated(text: str) -> Iterator[Candidate]:
    """The whole numbers that stand after ``Answer:``, without commas and leading zeros."""
    for match in _STATED.finditer(text):
        yield Candidate(match[1].replace(",", "").lstrip("0") or "0", *match.span())


_BY_PHRASE = token_splitter(stated, resample=plain.AGAIN_WORDS, stop=plain.STOP_WORDS)


def split_words(text: str, ended: bool) -> Attempts:
    """Split a response in plain words. An attempt ends at ``Decision: again``, the response at ``Decision: stop``.

    Text after that does not count. A response that ends by itself with an answer but without a decision has stopped too. From
    ``Check:`` on the text is deciding, before it sampling.
    """
    parts = _BY_PHRASE(text, ended)
    stopped = parts.stopped or (ended and bool(parts.answers))
    return Attempts(parts.answers, stopped, tuple(part for segment in parts.segments for part in _at_check(segment)))


def _at_check(segment: Segment) -> Iterator[Segment]:
    before, check, after = segment.text.partition(plain.CHECK)
    if segment.role is Role.DECISION or not check:
        yield segment
        return
    if before:
        yield Segment(Role.SAMPLE, before)
    yield Segment(Role.DECISION, check + after)
