"""Intervals in closed form: Wilson, Clopper-Pearson, Newcombe's differences of shares, Student's of means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Literal

from holdfast.config.errors import InputError
from holdfast.stats.estimate import Estimate, Unknown

Z = 1.959963984540054
"""The two-sided 95 % quantile of the normal distribution."""


def wilson(hits: float, n: float) -> Estimate:
    """The share of hits with Wilson's score interval.

    ``hits`` may be a sum of scores in [0, 1] instead of a count, and ``n`` an effective number of cases. For scores the
    interval is too wide rather than too narrow: p (1 - p) is the largest variance that they can have.
    """
    if not (n > 0 and 0 <= hits <= n * (1 + 1e-9)):
        raise InputError(f"a share needs 0 <= hits <= cases and at least one case; got {hits:g} of {n:g}")
    if abs(hits - round(hits)) < 1e-6 * n:  # a share read back from a file: 0.1 * 30 is not quite 3
        hits = round(hits)
    share = min(hits / n, 1.0)
    scale = 2 * (n + Z**2)
    centre = (2 * n * share + Z**2) / scale
    half = Z / scale * math.sqrt(4 * n * share * (1 - share) + Z**2)
    low = 0.0 if share == 0 else max(0.0, min(share, centre - half))
    high = 1.0 if share == 1 else min(1.0, max(share, centre + half))
    return Estimate(share, low, high, round(n), "wilson", _whole(hits))


def share(outcomes: Iterable[bool]) -> Estimate:
    """The share of true outcomes (at least one outcome), with Wilson's interval."""
    counted = [bool(outcome) for outcome in outcomes]
    return wilson(sum(counted), len(counted))


def pooled(shares: Iterable[Estimate]) -> Estimate:
    """Shares of different cases as one: hits and cases are added, and the interval is Wilson's on the sums.

    It covers the drawing of cases. It does not cover how much the parts (seeds, say) differ.
    """
    parts = list(shares)
    return wilson(sum(part.value * part.n for part in parts), sum(part.n for part in parts))


def share_of_repeats(repeats: Sequence[Sequence[bool]]) -> Estimate:
    """The share of hits where the same cases were tried several times: ``repeats[seed][case]``. A case counts once.

    Wilson's interval on the effective number of cases, p (1 - p) / Var(mean over cases): as many as there are cases where
    the repeats always agree, and never more than there are outcomes. For that number two cases are added on which all
    repeats agree, one a hit and one not: without them a single hit in one of three repeats would count as proof that
    repeats differ.
    """
    by_case = [sum(map(bool, case)) / len(repeats) for case in zip(*repeats, strict=True)]
    hits, n = sum(sum(map(bool, repeat)) for repeat in repeats), len(repeats) * len(by_case)
    if not n:
        raise InputError("a share needs at least one case; got none")
    padded = [*by_case, 0.0, 1.0]
    mean = math.fsum(padded) / len(padded)
    effective = mean * (1 - mean) * len(padded) ** 2 / math.fsum((value - mean) ** 2 for value in padded) - 2
    counted = min(effective, n)
    once = wilson(hits / n * counted, counted)
    return Estimate(hits / n, once.low, once.high, n, "wilson, each case once", hits)


def share_of_counts(counts: Sequence[tuple[int, int]], why: str = "no cases") -> Estimate | Unknown:
    """As ``share_of_repeats`` when only (hits, cases) of each repeat are known. Without cases it is unknown, and ``why``.

    The interval is Wilson's for the cases of one repeat: right where the repeats agree, else too wide.
    """
    hits, n = (sum(column) for column in zip(*counts, strict=True))
    if n == 0:
        return Unknown(why, 0)
    once = wilson(hits / len(counts), n / len(counts))
    return Estimate(hits / n, once.low, once.high, n, "wilson, each case once", hits)


def clopper_pearson(
    hits: float, n: float, *, alpha: float = 0.05, side: Literal["both", "upper", "lower"] = "both"
) -> Estimate:
    """The share of hits with the exact binomial interval: it contains the true share with probability 1 - alpha or more.

    ``side="upper"`` and ``side="lower"`` give a one-sided bound and leave the other end at 0 or 1: 0 of 300 is at most
    1.0 %. ``hits`` may be a sum of scores in [0, 1].
    """
    from scipy.special import betaincinv

    if not (0 <= hits <= n and n > 0 and 0 < alpha < 1):
        raise InputError(
            f"Clopper-Pearson: expected 0 <= hits <= cases and 0 < alpha < 1, not {hits:g} of {n:g}, {alpha:g}"
        )
    tail = alpha / 2 if side == "both" else alpha
    low = 0.0 if hits == 0 or side == "upper" else float(betaincinv(hits, n - hits + 1, tail))
    high = 1.0 if hits == n or side == "lower" else float(betaincinv(hits + 1, n - hits, 1 - tail))
    return Estimate(hits / n, low, high, round(n), "clopper-pearson", _whole(hits))


def newcombe(first: Estimate, second: Estimate, *, correlation: float = 0.0) -> Estimate:
    """``first`` minus ``second`` from their own intervals (Newcombe 1998, method 10; Zou and Donner 2008).

    The distances from value to end are squared and added. Independent estimates have ``correlation`` 0.
    """
    value = first.value - second.value
    below = _joined(first.value - first.low, second.high - second.value, correlation)
    above = _joined(first.high - first.value, second.value - second.low, correlation)
    return Estimate(value, value - below, value + above, min(first.n, second.n), "newcombe")


def newcombe_paired(only_first: int, only_second: int, n: int) -> Estimate:
    """The difference of two shares of the same ``n`` cases, from the cases that count in one share alone.

    A case is of one of three kinds, so the two counts are parts of a multinomial, and correlated by that (Tang et al.
    2010). Where the two shares never differ the interval still has a width: few cases prove little.
    """
    first, second = wilson(only_first, n), wilson(only_second, n)
    neither = (1 - first.value) * (1 - second.value)
    correlation = -math.sqrt(first.value * second.value / neither) if neither else 0.0
    difference = newcombe(first, second, correlation=correlation)
    return Estimate(difference.value, difference.low, difference.high, n, "newcombe, paired")


def student(values: Sequence[float]) -> Estimate:
    """The mean of independent values (one per seed) with Student's interval; one value alone has none."""
    if not values:
        raise InputError("a mean needs at least one value; got none")
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(mean)
    from scipy.special import stdtrit

    half = float(stdtrit(len(values) - 1, 0.975)) * statistics.stdev(values) / len(values) ** 0.5
    return Estimate(mean, mean - half, mean + half, len(values), "student")


def _whole(hits: float) -> int | None:
    """A count; None for a sum of scores."""
    return round(hits) if hits == round(hits) else None


def _joined(a: float, b: float, correlation: float) -> float:
    return math.sqrt(max(0.0, a * a + b * b - 2 * correlation * a * b))  # rounding may leave it below 0
