"""Shares with their intervals, in one place."""

from __future__ import annotations

from collections.abc import Iterable

from scipy.stats import binomtest

from holdfast.records import Rate


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
