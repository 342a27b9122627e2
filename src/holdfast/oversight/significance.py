"""Is one way of choosing better than another on the same prompts? Paired tests, corrected for how many were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import binomtest

from holdfast.config import InputError


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Exact two-sided p-value from the prompts where the two differ; 1 where they never do."""
    _same_length(first, second)
    only_first = sum(a and not b for a, b in zip(first, second, strict=True))
    only_second = sum(b and not a for a, b in zip(first, second, strict=True))
    return mcnemar_of(only_first, only_second)


def mcnemar_of(only_first: int, only_second: int) -> float:
    """From the counts: were the pairs that disagree as likely to fall on one side as on the other?"""
    disagreeing = only_first + only_second
    return float(binomtest(only_first, disagreeing).pvalue) if disagreeing else 1.0


def sign_flips(first: Sequence[Sequence[bool]], second: Sequence[Sequence[bool]]) -> float:
    """As ``mcnemar`` where every prompt was asked under several seeds: exact, and a prompt counts once.

    ``first`` and ``second``: one sequence per seed, the same prompts in each. Under chance the difference of a prompt, summed
    over seeds, has either sign. Pooled pairs would take one prompt under three seeds for three prompts.
    """
    for one, other in zip(first, second, strict=True):
        _same_length(one, other)
    nets = np.sum(np.asarray(first, dtype=int) - np.asarray(second, dtype=int), axis=0)
    reach = int(np.abs(nets).sum())
    odds = np.zeros(2 * reach + 1)  # of every sum from -reach to reach
    odds[reach] = 1.0
    for size in np.abs(nets[nets != 0]):
        odds = (np.roll(odds, size) + np.roll(odds, -size)) / 2
    return float(min(1.0, odds[np.abs(np.arange(-reach, reach + 1)) >= abs(int(nets.sum()))].sum()))


def permutation(first: Sequence[float], second: Sequence[float], *, num: int = 10_000, seed: int = 0) -> float:
    """Two-sided p-value of the mean difference: the signs of the differences are flipped at random.

    The observed assignment is counted as one of them, so that the p-value is never 0.
    """
    _same_length(first, second)
    differences = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (num, len(differences)))
    drawn = np.abs((signs * differences).mean(1))
    return float((1 + np.sum(drawn >= abs(differences.mean()) - 1e-12)) / (1 + num))


def holm(pvalues: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down correction: any adjusted p <= alpha keeps the chance of one false claim among all at alpha."""
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, (name, value) in enumerate(sorted(pvalues.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(pvalues) - rank) * value))
        adjusted[name] = largest
    return {name: adjusted[name] for name in pvalues}


def _same_length(first: Sequence[object], second: Sequence[object]) -> None:
    if not len(first) == len(second) > 0:
        raise InputError(f"paired test: {len(first)} and {len(second)} prompts; expected as many of each, at least one")
