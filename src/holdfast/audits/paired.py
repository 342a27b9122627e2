"""Do two defences differ beyond chance? Under one seed both answered the same requests, so they are compared in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import binomtest

from holdfast.records import MEASURES, Cell, Measure

REFERENCES = ("sft", "anchored")
LEVEL = 0.05


@dataclass(frozen=True)
class Paired:
    """One defence against another under one attack. ``p_holm`` allows for all defences compared with the same ``other``."""

    attack: str
    measure: Measure
    defence: str
    other: str
    only_defence: int  # requests with the outcome under ``defence`` alone
    only_other: int
    trials: int  # requests that both answered, all seeds together
    p: float
    p_holm: float

    @property
    def differs(self) -> bool:
        """Beyond chance, at 5 %."""
        return self.p_holm < LEVEL


def mcnemar(only_first: int, only_second: int) -> float:
    """The exact two-sided test: were the pairs that disagree as likely to fall on one side as on the other?"""
    disagreeing = only_first + only_second
    return float(binomtest(only_first, disagreeing).pvalue) if disagreeing else 1.0


def holm(ps: Sequence[float]) -> list[float]:
    """p-values made larger for having looked at several (Holm 1979): the smallest times m, the next times m - 1, ..."""
    adjusted = [1.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = largest
    return adjusted


def paired_tests(cells: Sequence[Cell], references: Sequence[str] = REFERENCES) -> list[Paired]:
    """Every defence against every reference that is there, per attack and measure; seeds pooled.

    The pairs of several seeds are counted as independent; how much seeds themselves differ is not in the p-value.
    """
    attacks = list(dict.fromkeys(cell.attack for cell in cells))
    defences = list(dict.fromkeys(cell.defence for cell in cells))
    return [
        test
        for attack in attacks
        for measure in MEASURES
        for other in references
        if other in defences
        for test in _against(cells, attack, measure, other, [name for name in defences if name != other])
    ]


def _against(cells: Sequence[Cell], attack: str, measure: Measure, other: str, defences: list[str]) -> list[Paired]:
    counted = {defence: _pairs(cells, attack, measure, defence, other) for defence in defences}
    known = {defence: pairs for defence, pairs in counted.items() if pairs}
    counts = {d: (sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)) for d, pairs in known.items()}
    ps = [mcnemar(*count) for count in counts.values()]
    return [
        Paired(attack, measure, defence, other, *counts[defence], len(known[defence]), p, p_holm)
        for defence, p, p_holm in zip(known, ps, holm(ps), strict=True)
    ]


def _pairs(cells: Sequence[Cell], attack: str, measure: Measure, first: str, second: str) -> list[tuple[str, str]]:
    """Outcomes of the same request under both, over the seeds that both have."""
    found = {
        (cell.defence, cell.seed): cell.outcomes[measure]
        for cell in cells
        if cell.attack == attack and measure in cell.outcomes
    }
    seeds = [seed for defence, seed in found if defence == first and (second, seed) in found]
    return [pair for seed in seeds for pair in zip(found[first, seed], found[second, seed], strict=True)]
