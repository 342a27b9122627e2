"""Do two defences differ beyond chance? Under one seed both answered the same requests, so they are compared in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.oversight.significance import holm, mcnemar_of
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
    ps = {defence: mcnemar_of(*count) for defence, count in counts.items()}
    corrected = holm(ps)
    return [
        Paired(attack, measure, defence, other, *counts[defence], len(known[defence]), ps[defence], corrected[defence])
        for defence in known
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
