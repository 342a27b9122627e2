"""Tests in pairs: do two ways differ on the same cases beyond chance? And Holm's correction for many such tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from holdfast.config.errors import InputError

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
    differences = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    rng, at_once, as_large = np.random.default_rng(seed), max(1, MOST_SIGNS // len(differences)), 0
    for start in range(0, num, at_once):
        signs = rng.choice([-1.0, 1.0], (min(at_once, num - start), len(differences)))
        drawn = np.abs((signs * differences).mean(1))
        as_large += int(np.sum(drawn >= abs(differences.mean()) - 1e-12))
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
