"""Shares with their intervals, in one place."""

from __future__ import annotations

import math
from collections.abc import Iterable

from scipy.stats import binomtest

from holdfast.audits.bootstrap import Interval
from holdfast.records import Figure, Rate


def rate(outcomes: Iterable[bool]) -> Rate:
    """The share of true outcomes with its 95 % Wilson interval."""
    hits = trials = 0
    for outcome in outcomes:
        hits, trials = hits + bool(outcome), trials + 1
    return rate_of(hits, trials)


def rate_of(hits: int, trials: int) -> Rate:
    """``hits`` of ``trials`` (at least one) with the 95 % Wilson interval."""
    interval = binomtest(hits, trials).proportion_ci(method="wilson")
    return Rate(hits / trials, float(interval.low), float(interval.high), hits, trials)


def pooled(rates: Iterable[Rate]) -> Rate:
    """Several seeds as one count. The interval covers the sampling of requests, not how much seeds differ."""
    counted = list(rates)
    return rate_of(sum(each.hits for each in counted), sum(each.trials for each in counted))


def difference(first: Figure | Rate, second: Figure | Rate, correlation: float = 0.0) -> Interval:
    """``first`` minus ``second``: the arms of their intervals, squared and added (Newcombe 1998; Zou and Donner 2008)."""
    value = first.value - second.value
    arms = (first.value - first.low, second.high - second.value), (first.high - first.value, second.value - second.low)
    below, above = (math.sqrt(a * a + b * b - 2 * correlation * a * b) for a, b in arms)
    return Interval(value, value - below, value + above)


def paired_difference(only_first: int, only_second: int, trials: int) -> Interval:
    """Of two shares of the same trials, from the trials on which they differ. Where they never do, few trials still prove little.

    A trial is one of three: the two counts are multinomial, and correlated by that (Tang et al. 2010).
    """
    first, second = rate_of(only_first, trials), rate_of(only_second, trials)
    neither = (1 - first.value) * (1 - second.value)
    return difference(first, second, -math.sqrt(first.value * second.value / neither) if neither else 0.0)
