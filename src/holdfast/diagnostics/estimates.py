"""A figure with its interval, or the reason why there is none; and the bootstrap that makes the interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from holdfast.records.shares import wilson

LEVEL = 0.95
OVER_SEEDS = "Wilson; seeds pooled, but all were asked the same, so a request counts once"
"""What pages with ``over_seeds`` say of their intervals."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval, of a ratio perhaps without an upper end.

    ``value`` is None where the data cannot say it, and ``why`` says so.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    trials: int | None = None  # of a share: how many cases it is a share of
    normal: tuple[float, float] | None = None  # of a share: [004]'s normal approximation, which may leave [0, 1]
    why: str = ""

    def row(self) -> dict[str, Any]:
        """For `--json`; what does not apply is left out."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "") or name == "value"}

    def __str__(self) -> str:
        if self.value is None:
            return self.why
        if self.low is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {'unbounded' if self.high is None else f'{self.high:.3f}'}]"


@dataclass(frozen=True)
class Bootstrap:
    """Draws of problems with replacement, as weights: a statistic of sums over problems costs one matrix product."""

    sums: Floats  # [draws, columns]
    whole: Floats  # [columns]: every problem once

    @classmethod
    def of(cls, counts: Floats, clusters: Sequence[Any] | None, *, draws: int, seed: int) -> Bootstrap:
        """``counts``: one row of numbers per response. Responses to one problem (``clusters``) are drawn together."""
        if clusters is not None:
            _, index = np.unique(np.asarray([str(each) for each in clusters]), return_inverse=True)
            together = np.zeros((index.max() + 1, counts.shape[1]))
            np.add.at(together, index, counts)
            counts = together
        num = len(counts)
        weights = np.random.default_rng(seed).multinomial(num, np.full(num, 1 / num), size=draws)
        return cls(weights @ counts, counts.sum(0))

    def interval(self, statistic: Callable[[Floats], Any]) -> tuple[float, float] | None:
        """Percentiles of the statistic over the draws in which it is defined; None where that is none."""
        values = np.asarray(statistic(self.sums), float)
        values = values[np.isfinite(values)]
        if not len(values):
            return None
        low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return float(low), float(high)


def share(hits: float, trials: float, interval: tuple[float, float] | None, why: str) -> Estimate:
    """``hits`` of ``trials``. None of them, or all: every draw agrees, and Wilson's interval says what that is worth."""
    if trials == 0:
        return Estimate(None, trials=0, why=why)
    value = float(hits / trials)
    if interval is None or value in (0.0, 1.0):
        wilson = binomtest(round(hits), round(trials)).proportion_ci(method="wilson")
        interval = float(wilson.low), float(wilson.high)
    return Estimate(value, *interval, trials=round(trials), normal=normal_interval(value, trials))


def over_seeds(counts: Sequence[tuple[int, int]], why: str) -> Estimate:
    """(hits, trials) of seeds that were all asked the same, pooled. What each request came to is not kept.

    So Wilson's interval is that of one seed's trials: right where seeds do alike, else too wide rather than too narrow.
    """
    hits, trials = (sum(column) for column in zip(*counts, strict=True))
    if trials == 0:
        return Estimate(None, trials=0, why=why)
    once = wilson(hits / len(counts), trials / len(counts))
    return Estimate(hits / trials, once.low, once.high, trials=trials)


def normal_interval(value: float, trials: float) -> tuple[float, float]:
    """[004] E.4: value ± 1.96 sqrt(value (1 - value) / n). Kept for comparison: it has no width at 0 and 1, and leaves
    [0, 1] near them, as Table 1 of the paper shows."""
    half = 1.959963984540054 * float(np.sqrt(value * (1 - value) / trials))
    return value - half, value + half
