"""Intervals of means by resampling rows: what is drawn anew is a row with all of its tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NUM_RESAMPLES = 2000
Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """A value between the 2.5 % and the 97.5 % quantile of its resampled values."""

    value: float
    low: float
    high: float


def mean(values: Sequence[float]) -> Interval:
    """The mean of at least one value."""
    return resampled(lambda rows: float(rows[:, 0].mean()), np.asarray(values, dtype=np.float64)[:, None])


def perplexity(nll: Sequence[float], num_tokens: Sequence[int]) -> Interval:
    """exp(all nll / all tokens), from the sums of every row."""
    return resampled(_perplexity, np.column_stack([nll, num_tokens]).astype(np.float64))


def perplexity_ratio(nll: Sequence[float], nll_ref: Sequence[float], num_tokens: Sequence[int]) -> Interval:
    """Of two models on the same tokens; in pairs, so that hard rows do not widen it."""

    def ratio(rows: Floats) -> float:
        return _exp((rows[:, 0].sum() - rows[:, 1].sum()) / rows[:, 2].sum())

    return resampled(ratio, np.column_stack([nll, nll_ref, num_tokens]).astype(np.float64))


def resampled(statistic: Callable[[Floats], float], rows: Floats) -> Interval:
    """``statistic`` of the rows, and its quantiles over draws of as many rows with replacement. The draws are always the same."""
    assert len(rows), "an interval needs at least one row"
    rng = np.random.default_rng(0)
    drawn = [statistic(rows[rng.integers(len(rows), size=len(rows))]) for _ in range(NUM_RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(statistic(rows), float(low), float(high))


def _perplexity(rows: Floats) -> float:
    return _exp(rows[:, 0].sum() / rows[:, 1].sum())


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))  # a model gone mad has a perplexity beyond float64; JSON has no infinity
