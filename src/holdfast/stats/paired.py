"""Tests in pairs: do two ways differ on the same cases beyond chance? And Holm's correction for many such tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from holdfast.config.errors import InputError
from holdfast.stats.bootstrap import bootstrap_mean
from holdfast.stats.estimate import Estimate
from holdfast.stats.intervals import newcombe_paired

MOST_SIGNS = 2_000_000  # kept in memory together


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Exact two-sided p-value from the cases where the two differ; 1 where they never do."""
    _same_length(first, second)
    only_first = sum(a and not b for a, b in zip(first, second, strict=True))
    only_second = sum(b and not a for a, b in zip(first, second, strict=True))
    return mcnemar_of(only_first, only_second)


def mcnemar_of(only_first: int, only_second: int) -> float:
    """McNemar's test from the two counts: are cases that differ as likely to fall on one side as on the other?"""
    from scipy.stats import binomtest

    differing = only_first + only_second
    return float(binomtest(only_first, differing).pvalue) if differing else 1.0


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """``second`` minus ``first`` on the same cases. ``p`` is two-sided, of the test that ``test`` names."""

    by: Estimate
    p: float
    num_up: int  # cases with a higher score in the second
    num_down: int
    test: Literal["mcnemar, exact", "sign flips"]


def paired_difference(first: Sequence[float], second: Sequence[float]) -> PairedDifference:
    """The mean of ``second`` minus the mean of ``first``, paired by case, with interval and p-value.

    Scores that are all 0 or 1: Newcombe's paired interval and McNemar's exact test. Other scores: bootstrap over cases, and
    random sign flips. Where every case differs by the same amount no draw has a width; for the interval two cases are then
    added that differ by the whole range of the scores, one either way.
    """
    _same_length(first, second)
    differences = [b - a for a, b in zip(first, second, strict=True)]
    num_up, num_down = sum(x > 0 for x in differences), sum(x < 0 for x in differences)
    if set(first) | set(second) <= {0.0, 1.0}:
        by = newcombe_paired(num_up, num_down, len(differences))
        return PairedDifference(by, mcnemar_of(num_up, num_down), num_up, num_down, "mcnemar, exact")
    by = bootstrap_mean(differences)
    if by.low == by.high:
        spread = (max(*first, *second) - min(*first, *second)) or 1.0
        padded = bootstrap_mean([*differences, spread, -spread])
        low, high = min(padded.low, by.value), max(padded.high, by.value)
        by = Estimate(by.value, low, high, by.n, "bootstrap, two cases added")
    return PairedDifference(by, permutation(second, first), num_up, num_down, "sign flips")


def sign_flips(first: Sequence[Sequence[bool]], second: Sequence[Sequence[bool]]) -> float:
    """As ``mcnemar`` where the same cases were tried several times: exact, and a case counts once.

    ``first`` and ``second``: one sequence per repeat (seed), the same cases in each. Under chance the difference of a
    case, summed over repeats, has either sign. Pooled pairs would count one case under three seeds as three cases.
    """
    _same_length(first, second)
    for one, other in zip(first, second, strict=True):
        _same_length(one, other)
    nets = np.sum(np.asarray(first, dtype=int) - np.asarray(second, dtype=int), axis=0)
    reach = int(np.abs(nets).sum())
    chances = np.zeros(2 * reach + 1)  # of every sum from -reach to reach
    chances[reach] = 1.0
    for size in np.abs(nets[nets != 0]):
        chances = (np.roll(chances, size) + np.roll(chances, -size)) / 2
    return float(min(1.0, chances[np.abs(np.arange(-reach, reach + 1)) >= abs(int(nets.sum()))].sum()))


def permutation(first: Sequence[float], second: Sequence[float], *, num: int = 10_000, seed: int = 0) -> float:
    """Two-sided p-value of the mean difference: the signs of the differences are flipped at random, ``num`` times.

    The observed signs are counted as one of the draws, so the p-value is never 0.
    """
    _same_length(first, second)
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    differences = one - other
    rounding = 1e-12 + 4 * np.finfo(float).eps * max(np.abs(one).max(), np.abs(other).max())  # equal sums stay equal
    rng, at_once, as_large = np.random.default_rng(seed), max(1, MOST_SIGNS // len(differences)), 0
    for start in range(0, num, at_once):
        signs = rng.choice([-1.0, 1.0], (min(at_once, num - start), len(differences)))
        drawn = np.abs((signs * differences).mean(1))
        as_large += int(np.sum(drawn >= abs(differences.mean()) - rounding))
    return (1 + as_large) / (1 + num)


def holm(pvalues: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down correction: claiming every adjusted p <= alpha makes one false claim with chance alpha at most."""
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, (name, value) in enumerate(sorted(pvalues.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(pvalues) - rank) * value))
        adjusted[name] = largest
    return {name: adjusted[name] for name in pvalues}


def _same_length(first: Sequence[object], second: Sequence[object]) -> None:
    if not len(first) == len(second) > 0:
        raise InputError(f"paired test: {len(first)} and {len(second)} cases; expected as many of each, at least one")
