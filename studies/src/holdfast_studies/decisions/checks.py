"""Count what checks do that write the attempt's value beside their own (`beside: true`): do they copy it, and obey it?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.diagnostics import Transcript
from holdfast_studies.worlds.arithmetic import AGAIN, CHECK, STOP, ArithmeticWorld, Product

_PLACE = re.compile(r"[a-z](\d+)\.(\d+)")


@dataclass(frozen=True)
class CheckCounts:
    """Counts of the checks in some responses. ``copied``, ``computed`` and ``other`` add up to ``reaching``."""

    verdicts: int = 0  # checks with both values at some step that ended in `stop` or `again`
    following: int = 0  # of those: `again` after two values that differ, `stop` where none do
    reaching: int = 0  # checks of a whole attempt that write both values at its first wrong step
    copied: int = 0  # of those: the check has the attempt's value
    computed: int = 0  # of those: the check has the right value instead
    other: int = 0

    def __add__(self, more: CheckCounts) -> CheckCounts:
        return CheckCounts(*(getattr(self, name) + getattr(more, name) for name in vars(self)))


class _Step(NamedTuple):
    place: tuple[int, int]  # row, column
    values: list[int]


class _Round(NamedTuple):
    attempt: list[_Step]
    check: list[_Step]
    verdict: str | None  # None: cut off


def count_checks(transcripts: Sequence[Transcript], base: int) -> CheckCounts:
    """Count over all responses. Their problems are the prompts of the world."""
    world = ArithmeticWorld(base, fused=False, beside=True)
    counts = CheckCounts()
    for transcript in transcripts:
        product = Product.read(transcript.problem)
        for part in _checked(transcript.response):
            counts += _verdict(part) + _first_wrong_step(part, product, world.steps(product))
    return counts


def _verdict(part: _Round) -> CheckCounts:
    if part.verdict is None or not part.check:
        return CheckCounts()
    differs = any(shown != own for _, (shown, own) in part.check)
    return CheckCounts(verdicts=1, following=int(differs == (part.verdict == AGAIN)))


def _first_wrong_step(part: _Round, product: Product, right: Sequence[int]) -> CheckCounts:
    m, n = product.size
    places = [(row, column) for row in range(n) for column in range(m)]
    if [place for place, _ in part.attempt] != places or any(len(values) != 1 for _, values in part.attempt):
        return CheckCounts()
    written = {place: values[0] for place, values in part.attempt}
    wrong = next((place for place, value in zip(places, right, strict=True) if written[place] != value), None)
    shown = next((values[0] for place, values in part.check if place == wrong), None)
    if wrong is None or shown is None:
        return CheckCounts()
    copied, computed = shown == written[wrong], shown == right[places.index(wrong)]
    return CheckCounts(reaching=1, copied=int(copied), computed=int(computed), other=int(not copied and not computed))


def _checked(response: str) -> Iterator[_Round]:
    """Every attempt that has a check, with the check's steps that have both values."""
    attempt: list[_Step] = []
    check: list[_Step] | None = None
    for word in [*response.split(), None]:
        place = _PLACE.fullmatch(word or "")
        steps = attempt if check is None else check
        if word in (STOP, AGAIN, None):
            if check is not None:
                yield _Round(attempt, [step for step in check if len(step.values) == 2], word)
            if word == STOP:
                return
            attempt, check = [], None
        elif word == CHECK:
            check = []
        elif place:
            steps.append(_Step((int(place[1]), int(place[2])), []))
        elif steps and word is not None and word.isdigit():
            steps[-1].values.append(int(word))
