"""Percentile intervals by drawing cases anew: sums over rows, whole groups together, the same draws every time."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.config.errors import InputError
from holdfast.stats.estimate import Estimate

Floats = NDArray[np.float64]
Order = Literal["counts", "indices"]
NUM_DRAWS = 2000
ENDS = (0.025, 0.975)
AT_ONCE = 100  # draws kept in memory together
MAX_KEPT = 2**21  # numbers of a table's draws that are kept for the next table of as many rows: 16 MiB


@dataclass(frozen=True)
class Resamples:
    """Column sums of a table of rows, over all rows once and over every draw of as many rows with replacement.

    Any statistic that is a function of such sums costs one matrix product for all draws.
    """

    sums: Floats  # [draws, columns]
    whole: Floats  # [columns]
    n: int  # rows, or groups of rows, that a draw takes
    filled: Floats  # [columns]: in how many of these a column is not 0

    @classmethod
    def of(
        cls,
        rows: ArrayLike,
        *,
        groups: Sequence[Hashable] | None = None,
        times: Sequence[float] | None = None,
        draws: int = NUM_DRAWS,
        seed: int = 0,
        order: Order = "counts",
    ) -> Resamples:
        """Draw the rows of ``rows`` [cases, columns] (or [cases]: one column) with replacement.

        ``groups`` names the group of each row: rows of one group (answers to one request) are drawn together.
        ``times`` says how many cases each row stands for, where equal cases were counted up.
        ``order``: how random numbers are used up. ``counts`` draws how often each row is taken, ``indices`` draws which
        row is taken, one by one. Both have the same distribution; figures that were made with one are repeated with it.
        """
        table = np.asarray(rows, dtype=float)
        table = table[:, None] if table.ndim == 1 else table
        if not len(table):
            raise InputError("a bootstrap interval needs at least one row; got none")
        if groups is not None:
            table = _summed(table, groups)
        sums = [weights @ table for weights in _weights(len(table), times, draws, seed, order)]
        filled = table != 0
        if times is None:
            return cls(np.concatenate(sums), table.sum(0), len(table), filled.sum(0, dtype=float))
        counted = np.asarray(times, dtype=float)
        return cls(np.concatenate(sums), counted @ table, round(sum(times)), counted @ filled)

    def interval(self, statistic: Callable[[Floats], Any]) -> tuple[float, float] | None:
        """Percentiles of ``statistic`` over the draws in which it is finite; None where it never is."""
        return percentile_interval(np.asarray(statistic(self.sums), dtype=float))

    def estimate(self, statistic: Callable[[Floats], Any]) -> Estimate:
        """``statistic`` of the sums [..., columns] with its interval; infinite ends where no draw has a value."""
        low, high = self.interval(statistic) or (-math.inf, math.inf)
        return Estimate(float(statistic(self.whole)), low, high, self.n, "bootstrap")


def bootstrap_mean(
    values: ArrayLike,
    *,
    groups: Sequence[Hashable] | None = None,
    draws: int = NUM_DRAWS,
    seed: int = 0,
    order: Order = "counts",
) -> Estimate:
    """The mean of at least one value. Differences of paired values are given as one value per pair."""
    column = np.asarray(values, dtype=float)
    rows = np.column_stack([column, np.ones(len(column))])
    resamples = Resamples.of(rows, groups=groups, draws=draws, seed=seed, order=order)
    return resamples.estimate(lambda sums: sums[..., 0] / sums[..., 1])


def percentile_interval(
    values: Floats, *, method: Literal["linear", "inverted_cdf"] = "linear"
) -> tuple[float, float] | None:
    """The 2.5 % and 97.5 % points of the finite values; None where there is none.

    ``inverted_cdf`` counts infinite values too: for ratios whose denominator may be drawn as 0.
    """
    known = values[np.isfinite(values) if method == "linear" else ~np.isnan(values)]
    if not len(known):
        return None
    low, high = np.quantile(known, ENDS, method=method)
    return float(low), float(high)


def resampled_rows(
    groups: Sequence[Hashable] | NDArray[Any], *, draws: int = NUM_DRAWS, seed: int = 0
) -> Iterator[NDArray[np.intp]]:
    """For statistics that are no function of sums: the row numbers of every draw, whole groups with replacement."""
    _, index = np.unique(np.asarray(groups), return_inverse=True)
    members = [np.flatnonzero(index == group) for group in range(index.max() + 1)]
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        yield np.concatenate([members[group] for group in rng.integers(len(members), size=len(members))])


def difference_of_repeats(first: Sequence[Sequence[bool]], second: Sequence[Sequence[bool]]) -> Estimate:
    """The difference of two shares where the same cases were tried several times: ``first[seed][case]``.

    Cases are drawn anew, each with all of its repeats. This is the limit of infinitely many draws, so nothing depends on
    a seed. For the interval two cases are added that differ, one either way (Agresti and Min 2005): without them a few
    cases on which nothing differs would give an interval without width.
    """
    nets = (np.asarray(first, dtype=int) - np.asarray(second, dtype=int)).sum(0)
    if not nets.size:
        raise InputError("a difference of shares needs at least one case; got none")
    num = len(first)
    low, high = _exact_ends(np.append(nets, [num, -num]))
    return Estimate(float(nets.mean()) / num, low / num, high / num, len(nets), "bootstrap, exact")


def _exact_ends(nets: NDArray[np.int64]) -> tuple[float, float]:
    """The 2.5 % and 97.5 % points of the mean of as many draws with replacement, exact.

    ``nets`` are whole numbers, so the chances of a sum of n draws are the n-th power of one draw's under convolution.
    """
    num, reach = len(nets), int(np.abs(nets).max())
    one = np.bincount(nets + reach, minlength=2 * reach + 1) / num
    size = 2 * reach * num + 1
    chances = np.fft.irfft(np.fft.rfft(one, size) ** num, size)
    places = np.searchsorted(chances.cumsum(), ENDS)
    low, high = (places - reach * num) / num
    return float(low), float(high)


def _summed(table: Floats, groups: Sequence[Hashable]) -> Floats:
    _, index = np.unique(np.asarray([str(group) for group in groups]), return_inverse=True)
    together = np.zeros((index.max() + 1, table.shape[1]))
    np.add.at(together, index, table)
    return together


def _weights(num: int, times: Sequence[float] | None, draws: int, seed: int, order: Order) -> Iterable[Floats]:
    """How often every draw takes each row, [at most AT_ONCE, num] at a time."""
    if seed < 0:
        raise InputError(f"seed={seed}: expected a whole number from 0 on")
    if times is None and num * draws <= MAX_KEPT:
        return _kept_weights(num, draws, seed, order)
    return _drawn_weights(num, times, draws, seed, order)


@lru_cache(maxsize=4)
def _kept_weights(num: int, draws: int, seed: int, order: Order) -> tuple[Floats, ...]:
    """A page has hundreds of intervals over as many requests each: their draws are the same, and most of the work."""
    kept = tuple(_drawn_weights(num, None, draws, seed, order))
    for weights in kept:
        weights.setflags(write=False)  # they are shared
    return kept


def _drawn_weights(num: int, times: Sequence[float] | None, draws: int, seed: int, order: Order) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    cases = num if times is None else round(sum(times))
    chances = np.full(num, 1 / num) if times is None else np.asarray(times, dtype=float) / cases
    for start in range(0, draws, AT_ONCE):
        size = min(AT_ONCE, draws - start)
        if order == "counts":
            yield rng.multinomial(cases, chances, size=size).astype(float)
        else:
            picks = rng.integers(0, num, (size, num)) + num * np.arange(size)[:, None]
            yield np.bincount(picks.ravel(), minlength=num * size).reshape(size, num).astype(float)
