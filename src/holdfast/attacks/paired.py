"""Do two defences differ beyond chance? Under one seed both answered the same requests, so they are compared in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.audits.change import LEVEL
from holdfast.evaluations import Comparison, compare
from holdfast.evaluations.evaluation import Evaluation, Scores, Trial, scores_of
from holdfast.records import BESIDE, GOOD, MEASURES, Cell, Measure
from holdfast.stats import holm, mcnemar_of, sign_flips

REFERENCES = ("sft", "anchored")


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
        """Whether the two differ beyond chance, at 5 %."""
        return self.p_holm < LEVEL


Pairs = list[tuple[bool, bool]]
"""Whether the same requests are hits under two defences and one seed."""


def paired_tests(
    cells: Sequence[Cell], references: Sequence[str] = REFERENCES, *, asked_again: bool = False
) -> list[Paired]:
    """Every defence against every reference that is there, per attack and measure; seeds pooled.

    ``asked_again``: every seed asks the same requests, and a request counts once. Else the pairs of several seeds are counted
    as independent. How much seeds themselves differ is in neither p-value.
    """
    attacks = list(dict.fromkeys(cell.attack for cell in cells))
    defences = list(dict.fromkeys(cell.defence for cell in cells))
    return [
        test
        for attack in attacks
        for measure in (*MEASURES, *BESIDE)
        for other in references
        if other in defences
        for test in _against(cells, attack, measure, other, [name for name in defences if name != other], asked_again)
    ]


def compare_defences(cells: Sequence[Cell], attack: str, first: str, second: str) -> Comparison:
    """Every measure under ``second`` minus that under ``first``, paired by request. Seeds that only one has are left out."""
    sides = (
        _evaluation(defence, [cell for cell in cells if (cell.attack, cell.defence) == (attack, defence)])
        for defence in (first, second)
    )
    return compare(*sides, common=True)


def _evaluation(defence: str, cells: Sequence[Cell]) -> Evaluation:
    """Where every seed asks the same requests, seeds are repeats of a request."""
    figures: dict[str, Scores] = {}
    for measure in (*MEASURES, *BESIDE):
        trials = [
            Trial(f"request {number}" if cell.asks_again else f"seed {cell.seed} request {number}", float(hit))
            for cell in cells
            for number, hit in enumerate(cell.counted(measure), start=1)
        ]
        if trials:
            figures[measure] = scores_of(trials, "more" if measure in GOOD else "less", defence)
    judges = {cell.judge for cell in cells} - {"world"}
    return Evaluation(defence, figures, judged=frozenset(figures) - {"utility"} if judges else frozenset())


def _against(
    cells: Sequence[Cell], attack: str, measure: Measure, other: str, defences: list[str], asked_again: bool
) -> list[Paired]:
    compared = {defence: _pairs(cells, attack, measure, defence, other) for defence in defences}
    by_seed = {defence: seeds for defence, seeds in compared.items() if seeds}
    known = {defence: [pair for seed in seeds for pair in seed] for defence, seeds in by_seed.items()}
    counts = {d: (sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)) for d, pairs in known.items()}
    ps = {d: _p_by_request(by_seed[d]) if asked_again else mcnemar_of(*counts[d]) for d in known}
    corrected = holm(ps)
    return [
        Paired(attack, measure, defence, other, *counts[defence], len(known[defence]), ps[defence], corrected[defence])
        for defence in known
    ]


def _p_by_request(seeds: Sequence[Pairs]) -> float:
    ours, theirs = ([[pair[side] for pair in seed] for seed in seeds] for side in (0, 1))
    return sign_flips(ours, theirs)


def _pairs(cells: Sequence[Cell], attack: str, measure: Measure, first: str, second: str) -> list[Pairs]:
    """For each seed that both have, the two outcomes of every request."""
    hits_of = {
        (cell.defence, cell.seed): hits for cell in cells if cell.attack == attack and (hits := cell.counted(measure))
    }
    seeds = [seed for defence, seed in hits_of if defence == first and (second, seed) in hits_of]
    return [list(zip(hits_of[first, seed], hits_of[second, seed], strict=True)) for seed in seeds]
