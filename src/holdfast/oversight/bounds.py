"""What can be promised about unsafe answers, from labelled calibration data, and under which assumptions (MATH §6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binom

from holdfast.config import InputError
from holdfast.stats import clopper_pearson

ASSUMPTIONS = (
    "the calibration rows are independent draws of the prompts, the model and the judge that will be served; nobody chooses "
    "prompts against the judge; the labels are right. It does not hold after a shift of prompts or against an adversary"
)
GRID = tuple(step / 100 for step in range(100, -1, -1))
"""Thresholds from the strictest down. Fixed before the data are seen: that is what makes the choice valid."""


def pass_through(rate: float, n: int) -> float:
    """P(unsafe returned) <= 1 - (1 - r)^n, r = P(a candidate is unsafe and passes). Concave, so a bound on the mean r will do."""
    return -math.expm1(n * math.log1p(-rate)) if rate < 1 else 1.0


def rate_for(risk: float, n: int) -> float:
    """The largest r whose pass-through bound is at most ``risk``."""
    return -math.expm1(math.log1p(-risk) / n) if risk < 1 else 1.0


@dataclass(frozen=True)
class Guarantee:
    """An upper bound on P(unsafe returned) by best-of-n at a threshold, in numbers and in words."""

    n: int
    alpha: float
    threshold: float
    num_rows: int
    num_unsafe_passed: int
    rate_bound: float  # on r, per candidate
    risk_bound: float  # on P(unsafe returned), per request
    passed: float  # the share of calibration candidates that pass: what the threshold costs

    def statement(self) -> str:
        """Every statement names what it assumes."""
        counted = f"{self.num_unsafe_passed} of {self.num_rows} calibration candidates were unsafe and passed"
        return (
            f"With probability at least {100 * (1 - self.alpha):.10g}% over the calibration, best-of-{self.n} at threshold "
            f"{self.threshold:.10g} returns an unsafe answer to at most {self.risk_bound:.2%} of requests ({counted}: at most "
            f"{self.rate_bound:.3%} per candidate). Assumed: {ASSUMPTIONS}."
        )


def guarantee(
    scores: Sequence[float], unsafe: Sequence[bool], *, n: int, threshold: float = 0.5, alpha: float = 0.05
) -> Guarantee:
    """The bound at a threshold fixed beforehand. A candidate passes where its safety score is at least that."""
    _check(scores, unsafe, n, alpha)
    leaked = sum(bad and score >= threshold for score, bad in zip(scores, unsafe, strict=True))
    rate = clopper_pearson(leaked, len(scores), alpha=alpha, side="upper").high
    passed = sum(score >= threshold for score in scores) / len(scores)
    return Guarantee(n, alpha, threshold, len(scores), leaked, rate, pass_through(rate, n), passed)


@dataclass(frozen=True)
class Choice:
    """The loosest threshold that keeps the target risk, or None with what stands in the way."""

    target: float
    guarantee: Guarantee | None
    reason: str


def choose_threshold(
    scores: Sequence[float],
    unsafe: Sequence[bool],
    *,
    n: int,
    target: float,
    alpha: float = 0.05,
    grid: Sequence[float] = GRID,
) -> Choice:
    """Learn-then-Test with fixed-sequence testing.

    From the strictest threshold down, each is tested for "r is above what the target allows" by an exact binomial p-value, and
    the walk ends at the first that is not rejected; so all that were passed hold at once with probability 1 - alpha.
    A threshold that lets nothing of the calibration through would promise safety by silence: it is tested, but never chosen.
    """
    _check(scores, unsafe, n, alpha)
    allowed = rate_for(target, n)
    values, bad = np.asarray(scores, dtype=float), np.asarray(unsafe, dtype=bool)
    leaked = [int((values[bad] >= threshold).sum()) for threshold in grid]
    rejected = binom.cdf(leaked, len(scores), allowed) <= alpha
    kept = grid if rejected.all() else grid[: int(np.argmin(rejected))]
    usable = [threshold for threshold in kept if values.max() >= threshold]
    chosen = min(usable) if usable else None
    if chosen is not None:
        # The walk shows the target, no less: an interval at the threshold that it chose would ignore the choosing.
        made = replace(
            guarantee(scores, unsafe, n=n, threshold=chosen, alpha=alpha), rate_bound=allowed, risk_bound=target
        )
        return Choice(target, made, f"threshold {chosen:g} keeps the risk at or below {target:.2%}")
    return Choice(target, None, _why_not(len(scores), n, target, alpha, allowed))


def rows_needed(n: int, target: float, alpha: float) -> int:
    """How many calibration rows without a single leak a target needs."""
    return math.ceil(math.log(alpha) / math.log1p(-rate_for(target, n)))


def _why_not(num_rows: int, n: int, target: float, alpha: float, allowed: float) -> str:
    needed = rows_needed(n, target, alpha)
    start = f"a risk of {target:.2%} cannot be met with this judge at n = {n}: it allows {allowed:.4%} per candidate"
    if num_rows < needed:
        return f"{start}, which takes at least {needed} calibration rows to show; there are {num_rows}"
    return f"{start}, and at every threshold too much that is unsafe passes, or nothing passes at all"


def _check(scores: Sequence[float], unsafe: Sequence[bool], n: int, alpha: float) -> None:
    if len(scores) != len(unsafe) or not scores:
        raise InputError(
            f"calibration: {len(scores)} scores and {len(unsafe)} labels; expected as many of each, at least one"
        )
    if n < 1 or not 0 < alpha < 1:
        raise InputError(f"calibration: expected n >= 1 and 0 < alpha < 1, not {n} and {alpha}")
    if any(math.isnan(score) for score in scores):
        raise InputError("calibration: a score is NaN")
