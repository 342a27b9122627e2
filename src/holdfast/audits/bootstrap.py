"""Intervals of means by resampling rows: what is drawn anew is a row with all of its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NUM_RESAMPLES = 2000
AT_ONCE = 100
Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """A value between the 2.5 % and the 97.5 % quantile of its resampled values."""

    value: float
    low: float
    high: float


def mean(values: Sequence[float]) -> Interval:
    """The mean of at least one value."""
    return _resampled(np.column_stack([values, np.ones(len(values))]), lambda total: total[:, 0] / total[:, 1])


def perplexity(nll: Sequence[float], num_tokens: Sequence[int]) -> Interval:
    """exp(all nll / all tokens), from the sums of every row."""
    return _resampled(np.column_stack([nll, num_tokens]), lambda total: _exp(total[:, 0] / total[:, 1]))


def perplexity_ratio(nll: Sequence[float], nll_ref: Sequence[float], num_tokens: Sequence[int]) -> Interval:
    """Of two models on the same tokens; in pairs, so that hard rows do not widen it."""
    return perplexity((np.asarray(nll) - np.asarray(nll_ref)).tolist(), num_tokens)


def _resampled(rows: Floats, statistic: Callable[[Floats], Floats]) -> Interval:
    """``statistic`` of the columns' totals, and its quantiles over draws of as many rows with replacement.

    The draws are the same every time. How often each row was drawn is all that a total needs.
    """
    num = len(rows)
    assert num, "an interval needs at least one row"
    rng = np.random.default_rng(0)
    totals = [rng.multinomial(num, np.full(num, 1 / num), size=AT_ONCE) @ rows for _ in range(NUM_RESAMPLES // AT_ONCE)]
    low, high = np.quantile(statistic(np.concatenate(totals)), [0.025, 0.975])
    return Interval(float(statistic(rows.sum(0)[None])[0]), float(low), float(high))


def _exp(value: Floats) -> Floats:
    return np.exp(np.minimum(value, 700.0))  # a model gone mad has a perplexity beyond float64; JSON has no infinity
