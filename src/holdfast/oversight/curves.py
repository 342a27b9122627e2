"""The whole curve over n from the pools of many prompts, with bootstrap intervals over prompts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from holdfast.config import InputError
from holdfast.oversight.estimators import Pool, abstention, expected, pass_at_k
from holdfast.oversight.kl import divergence
from holdfast.stats import Estimate, Resamples, Unknown, clopper_pearson, finite_or_none

RIGHT = 0.5  # a gold score from here on counts as right


@dataclass(frozen=True)
class Point:
    """Best-of-n at one n, averaged over prompts. Gold figures are None where no gold scores are known."""

    n: int
    reward: Estimate | Unknown  # E[R] given that something is returned
    joint: Estimate  # E[R * S]; an abstention counts 0
    abstention: Estimate
    gold: Estimate | None  # E[gold of what is returned]; an abstention counts 0
    pass_at_n: Estimate | None  # whether one of the n is right, returned or not: no selection can do better
    kl: float  # KL(overseen || base), exact for the pools' key distributions; prompts that never return left out
    kl_reverse: float  # KL(base || overseen): infinite as soon as one prompt has an unsafe sample
    kl_bound: float

    def row(self) -> dict[str, Any]:
        """For JSON: an infinite figure becomes the word, and NaN becomes null."""
        return {name: _plain(value) for name, value in vars(self).items()}


def curve(pools: Sequence[Pool], ns: Sequence[int] | None = None, *, num_bootstrap: int = 1000) -> list[Point]:
    """One point per n (1 .. the smallest pool, unless given). Every n draws the same prompts."""
    if not pools:
        raise InputError("curve: there are no pools")
    largest = min(pool.size for pool in pools)
    resampled = partial(Resamples.of, draws=num_bootstrap, order="indices")
    return [_point(pools, n, resampled) for n in (ns or range(1, largest + 1))]


def _point(pools: Sequence[Pool], n: int, resampled: Callable[..., Resamples]) -> Point:
    joint = [expected(pool, pool.rewards, n) for pool in pools]
    nothing = [abstention(pool, n) for pool in pools]
    columns = {"joint": joint, "abstention": nothing, "returned": [1 - share for share in nothing]}
    golds = [pool.gold for pool in pools if pool.gold is not None]
    has_gold = len(golds) == len(pools)
    if has_gold:
        columns["gold"] = [expected(pool, gold, n) for pool, gold in zip(pools, golds, strict=True)]
        columns["passed"] = [pass_at_k(len(gold), sum(score >= RIGHT for score in gold), n) for gold in golds]
    drawn = _Drawn(columns, resampled(np.column_stack(list(columns.values()))))
    gold_is_share = all(0 <= score <= 1 for gold in golds for score in gold)
    moved = [divergence(pool.rewards, pool.safe, n) for pool in pools]
    returning = [divergences for divergences in moved if not math.isnan(divergences.from_base)]
    return Point(
        n=n,
        reward=drawn.ratio("joint", "returned"),
        joint=drawn.mean("joint"),
        abstention=drawn.share("abstention"),
        gold=(drawn.share("gold") if gold_is_share else drawn.mean("gold")) if has_gold else None,
        pass_at_n=drawn.share("passed") if has_gold else None,
        kl=_mean([divergences.from_base for divergences in returning]),
        kl_reverse=_mean([divergences.to_base for divergences in moved]),
        kl_bound=_mean([divergences.bound for divergences in returning]),
    )


class _Drawn(NamedTuple):
    """Figures of all prompts, and of every draw of prompts, by name."""

    columns: dict[str, list[float]]  # by prompt
    resamples: Resamples

    def mean(self, name: str) -> Estimate:
        column = list(self.columns).index(name)
        return self._estimate(lambda sums: sums[..., column] / self.resamples.n)

    def share(self, name: str) -> Estimate:
        """A mean of shares in [0, 1].

        Where they add up to less than one prompt, or lack less than one of all, the draws hardly differ, and the interval
        would have no width. There it is the exact binomial one (Clopper-Pearson), too wide rather than too narrow, since
        no shares vary more than zeros and ones.
        """
        values = np.asarray(self.columns[name])
        hits = min(max(float(values.mean()), 0.0), 1.0) * len(values)
        return self.mean(name) if 1 <= hits <= len(values) - 1 else clopper_pearson(hits, len(values))

    def ratio(self, top: str, bottom: str) -> Estimate | Unknown:
        """E[R | returned] = E[R S] / P(returned)."""
        above, below = (list(self.columns).index(name) for name in (top, bottom))
        if not self.resamples.whole[below]:
            return Unknown("undefined (nothing returned)")
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._estimate(lambda sums: sums[..., above] / sums[..., below])

    def _estimate(self, statistic: Callable[[Any], Any]) -> Estimate:
        """A figure with its interval over prompts. One prompt has none: every draw is that prompt."""
        estimate = self.resamples.estimate(statistic)
        return estimate if self.resamples.n > 1 else replace(estimate, low=-math.inf, high=math.inf)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _plain(value: Any) -> Any:
    if isinstance(value, Estimate | Unknown):
        return {part: finite_or_none(getattr(value, part)) for part in ("value", "low", "high")}
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "infinite"
    return value
