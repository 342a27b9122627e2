"""Responses in words ("Work, Answer, Check, Decision") as attempts and decisions: exact, because decisions have phrases of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.diagnostics import Attempts, Candidate
from holdfast.diagnostics.attempts import token_splitter
from holdfast.judging.extractors import plain_number
from holdfast.records import Role, Segment
from holdfast_studies.worlds.arithmetic_text import AGAIN_WORDS, ANSWER, CHECK, STOP_WORDS

_STATED = re.compile(rf"{ANSWER}\s*(-?\d[\d,]*)")


def stated(text: str) -> Iterator[Candidate]:
    """The numbers that stand after ``Answer:``, without commas."""
    for match in _STATED.finditer(text):
        yield Candidate(plain_number(match[1]), *match.span())


_BY_PHRASE = token_splitter(stated, resample=AGAIN_WORDS, stop=STOP_WORDS)


def split_words(text: str, ended: bool) -> Attempts:
    """An attempt ends at ``Decision: again``, the response at ``Decision: stop``; what stands after that does not count.

    A response that ends by itself with an answer but without a decision has stopped too. From ``Check:`` on the text is
    deciding, before it sampling.
    """
    parts = _BY_PHRASE(text, ended)
    stopped = parts.stopped or (ended and bool(parts.answers))
    return Attempts(parts.answers, stopped, tuple(part for each in parts.segments for part in _at_check(each)))


def _at_check(segment: Segment) -> Iterator[Segment]:
    before, check, after = segment.text.partition(CHECK)
    if segment.role is Role.DECISION or not check:
        yield segment
        return
    if before:
        yield Segment(Role.SAMPLE, before)
    yield Segment(Role.DECISION, check + after)
