"""The smallest difference that so many paired cases could have shown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from holdfast.stats.estimate import Unknown

STEPS = 50
"""Halvings of the interval in which the difference is sought."""


def smallest_difference(
    first: Sequence[float], second: Sequence[float], *, power: float = 0.8, alpha: float = 0.05
) -> float | Unknown:
    """The smallest true difference that the paired test at level ``alpha`` finds with chance ``power``.

    For scores of 0 and 1 the test is McNemar's exact one, and as many cases differ as here, or just enough. For other scores
    it is the paired t-test, and the differences spread as here.
    """
    if set(first) | set(second) <= {0.0, 1.0}:
        differing = sum(a != b for a, b in zip(first, second, strict=True)) / len(first)
        return _least(lambda by: mcnemar_power(len(first), by, max(by, differing), alpha), 1.0, power, len(first))
    differences = [b - a for a, b in zip(first, second, strict=True)]
    spread = statistics.stdev(differences) if len(differences) > 1 else 0.0
    if spread < 1e-12:
        return Unknown("every item differs by the same amount", len(first))
    return _least(lambda by: t_power(len(first), by / spread, alpha), 100 * spread, power, len(first))


def mcnemar_power(n: int, difference: float, differing: float, alpha: float = 0.05) -> float:
    """The chance that McNemar's exact test finds ``difference``, where the share ``differing`` of ``n`` cases differs.

    Exact: the number of cases that differ is binomial, and so is the number of those on the likelier side.
    """
    import numpy as np
    from scipy.stats import binom

    counts = np.arange(n + 1)
    weights = binom.pmf(counts, n, differing)
    counts, weights = counts[weights > 1e-12], weights[weights > 1e-12]
    # The largest k with 2 P(X <= k) <= alpha for fair coins; -1 where there is none. The two tails are alike.
    most = binom.ppf(alpha / 2, counts, 0.5).astype(int)
    most = np.where(2 * binom.cdf(most, counts, 0.5) <= alpha, most, most - 1)
    likelier = (1 + difference / differing) / 2
    chances = binom.cdf(most, counts, likelier) + binom.sf(counts - most - 1, counts, likelier)
    return float(np.sum(weights * np.where(most >= 0, chances, 0.0)))


def t_power(n: int, effect: float, alpha: float = 0.05) -> float:
    """The chance that the two-sided paired t-test finds a mean difference of ``effect`` standard deviations."""
    from scipy.stats import nct, t

    edge = t.isf(alpha / 2, n - 1)
    shift = effect * math.sqrt(n)
    chance = float(1 - nct.cdf(edge, n - 1, shift) + nct.cdf(-edge, n - 1, shift))
    return chance if math.isfinite(chance) else 1.0  # scipy has no number far out, where it is 1


def _least(power_at: Callable[[float], float], highest: float, power: float, n: int) -> float | Unknown:
    if power_at(highest) < power:
        return Unknown(f"{n} items are too few to show any difference", n)
    low, high = 0.0, highest
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if power_at(middle) >= power else (middle, high)
    return high
