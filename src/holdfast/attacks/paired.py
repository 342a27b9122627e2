"""Do two defences differ beyond chance? Under one seed both answered the same requests, so they are compared in pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.evaluations import Comparison, compare
from holdfast.evaluations.evaluation import Evaluation, Scores, Trial, scores_of
from holdfast.records import BESIDE, GOOD, MEASURES, Cell, Measure, ask_the_same
from holdfast.records.audit import LEVEL
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
HitsOf = Mapping[tuple[str, int], tuple[bool, ...]]
"""By defence and seed: whether every request counts for one measure under one attack."""


def paired_tests(cells: Sequence[Cell], references: Sequence[str] = REFERENCES) -> list[Paired]:
    """Compare every defence with every reference in ``cells``, for each attack and measure; seeds pooled.

    Where every seed asks the same requests, a request counts once. Else the pairs of several seeds are counted as
    independent. How much seeds themselves differ is in neither p-value.
    """
    by_request = ask_the_same(cells)
    by_attack: dict[str, list[Cell]] = {}
    for cell in cells:
        by_attack.setdefault(cell.attack, []).append(cell)
    defences = list(dict.fromkeys(cell.defence for cell in cells))
    tests = []
    for attack, of_attack in by_attack.items():
        for measure in (*MEASURES, *BESIDE):
            hits_of = {(cell.defence, cell.seed): hits for cell in of_attack if (hits := cell.counted(measure))}
            for other in references:
                tests += _against(hits_of, attack, measure, other, defences, by_request)
    return tests


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
    hits_of: HitsOf, attack: str, measure: Measure, other: str, defences: Sequence[str], by_request: bool
) -> list[Paired]:
    compared = {defence: _pairs(hits_of, defence, other) for defence in defences if defence != other}
    by_seed = {defence: seeds for defence, seeds in compared.items() if seeds}
    known = {defence: [pair for seed in seeds for pair in seed] for defence, seeds in by_seed.items()}
    counts = {d: (sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)) for d, pairs in known.items()}
    ps = {d: _p_by_request(by_seed[d]) if by_request else mcnemar_of(*counts[d]) for d in known}
    corrected = holm(ps)
    return [
        Paired(attack, measure, defence, other, *counts[defence], len(known[defence]), ps[defence], corrected[defence])
        for defence in known
    ]


def _p_by_request(seeds: Sequence[Pairs]) -> float:
    ours, theirs = ([[pair[side] for pair in seed] for seed in seeds] for side in (0, 1))
    return sign_flips(ours, theirs)


def _pairs(hits_of: HitsOf, first: str, second: str) -> list[Pairs]:
    """For each seed that both have, the two outcomes of every request."""
    seeds = [seed for defence, seed in hits_of if defence == first and (second, seed) in hits_of]
    return [list(zip(hits_of[first, seed], hits_of[second, seed], strict=True)) for seed in seeds]
