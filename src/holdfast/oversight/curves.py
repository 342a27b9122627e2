"""The whole curve over n from the pools of many prompts, with bootstrap intervals over prompts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from holdfast.config import InputError
from holdfast.oversight.estimators import Pool, abstention, expected, pass_at_k
from holdfast.oversight.kl import divergence

RIGHT = 0.5  # a gold score from here on counts as right


@dataclass(frozen=True)
class Estimate:
    """A mean over prompts with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Point:
    """Best-of-n at one n, averaged over prompts. Gold figures are None where no gold scores are known."""

    n: int
    reward: Estimate  # E[R] given that something is returned
    joint: Estimate  # E[R * S]; an abstention counts 0
    abstention: Estimate
    gold: Estimate | None  # E[gold of what is returned]; an abstention counts 0
    pass_at_n: Estimate | None  # a right one among the n, whoever is returned: the ceiling of any selection
    kl: float  # KL(overseen || base), exact for the pools' key distributions; prompts that never return left out
    kl_reverse: float  # KL(base || overseen): infinite as soon as one prompt has an unsafe sample
    kl_bound: float

    def row(self) -> dict[str, Any]:
        """For JSON, which has no infinity: that becomes the word, and NaN becomes null."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def curve(
    pools: Sequence[Pool], ns: Sequence[int] | None = None, *, num_bootstrap: int = 1000, seed: int = 0
) -> list[Point]:
    """One point per n (1 .. the smallest pool, unless given)."""
    if not pools:
        raise InputError("curve: there are no pools")
    largest = min(pool.size for pool in pools)
    picks = np.random.default_rng(seed).integers(0, len(pools), (num_bootstrap, len(pools)))
    return [_point(pools, n, picks) for n in (ns or range(1, largest + 1))]


def _point(pools: Sequence[Pool], n: int, picks: np.ndarray) -> Point:
    joint = np.array([expected(pool, pool.rewards, n) for pool in pools])
    nothing = np.array([abstention(pool, n) for pool in pools])
    golds = [pool.gold for pool in pools if pool.gold is not None]
    gold = passed = None
    if len(golds) == len(pools):
        shares = all(0 <= score <= 1 for g in golds for score in g)
        estimate = share_estimate if shares else mean_estimate
        gold = estimate([expected(p, g, n) for p, g in zip(pools, golds, strict=True)], picks)
        passed = share_estimate([pass_at_k(len(g), sum(x >= RIGHT for x in g), n) for g in golds], picks)
    moved = [divergence(pool.rewards, pool.safe, n) for pool in pools]
    returning = [each for each in moved if not math.isnan(each.from_base)]
    return Point(
        n=n,
        reward=_ratio(joint, 1 - nothing, picks),
        joint=mean_estimate(joint, picks),
        abstention=share_estimate(nothing, picks),
        gold=gold,
        pass_at_n=passed,
        kl=_mean([each.from_base for each in returning]),
        kl_reverse=_mean([each.to_base for each in moved]),
        kl_bound=_mean([each.bound for each in returning]),
    )


def mean_estimate(values: Sequence[float] | np.ndarray, picks: np.ndarray) -> Estimate:
    """``picks`` [B, P]: which prompts each bootstrap draw takes."""
    array = np.asarray(values, dtype=float)
    low, high = np.quantile(array[picks].mean(1), [0.025, 0.975])
    return Estimate(float(array.mean()), float(low), float(high))


def share_estimate(values: Sequence[float] | np.ndarray, picks: np.ndarray) -> Estimate:
    """A mean of shares in [0, 1].

    Where they add up to less than one prompt, or lack less than one of all, the draws hardly differ, and the interval would
    have no width: there it is the exact binomial one (Clopper-Pearson), too wide rather than too narrow, since no shares
    vary more than zeros and ones.
    """
    found, num = mean_estimate(values, picks), len(values)
    hits = min(max(found.value, 0.0), 1.0) * num
    if 1 <= hits <= num - 1:
        return found
    low = float(beta.ppf(0.025, hits, num - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(0.975, hits + 1, num - hits)) if hits < num else 1.0
    return Estimate(found.value, low, high)


def _ratio(numerator: np.ndarray, denominator: np.ndarray, picks: np.ndarray) -> Estimate:
    """E[R | returned] = E[R S] / P(returned); NaN where nothing is returned."""
    tops, bottoms = numerator[picks].mean(1), denominator[picks].mean(1)
    draws = tops[bottoms > 0] / bottoms[bottoms > 0]
    if not denominator.sum() or not len(draws):
        return Estimate(math.nan, math.nan, math.nan)
    low, high = np.quantile(draws, [0.025, 0.975])
    return Estimate(float(numerator.mean() / denominator.mean()), float(low), float(high))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "infinite"
    return value
