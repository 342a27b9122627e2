"""Figures over seeds: the mean with Student's 95 % interval."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from holdfast_studies.papers.measured import Measured
from scipy.stats import t


def over_seeds(values: Sequence[float]) -> Measured:
    """One value per seed. One seed has no interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Measured(mean)
    half = float(t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / len(values) ** 0.5
    return Measured(mean, mean - half, mean + half, len(values))


def above(measured: Measured, bar: float) -> bool:
    """Is the whole interval above it?"""
    return (measured.value if measured.low is None else measured.low) > bar


def below(measured: Measured, bar: float) -> bool:
    """Is the whole interval below it?"""
    return (measured.value if measured.high is None else measured.high) < bar


def contains(measured: Measured, printed: float) -> bool:
    """Does the interval contain the printed figure?"""
    return measured.low is not None and measured.high is not None and measured.low <= printed <= measured.high
