"""Do two judges say the same, beyond what chance would make them?"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.audits.bootstrap import NUM_RESAMPLES
from holdfast.audits.intervals import rate_of
from holdfast.records import Agreement


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """(observed - expected) / (1 - expected) agreement; None where it is undefined: one label, given by both throughout."""
    return _kappa(_table(first, second))


def agreement(suite: str, judges: tuple[str, str], first: Sequence[Hashable], second: Sequence[Hashable]) -> Agreement:
    """Kappa with its bootstrap interval. The counts of label pairs are all there is to resample.

    Where the two never differ, no draw does: there Wilson's interval of the agreement is put into kappa.
    """
    table = _table(first, second)
    trials, kappa = len(first), _kappa(table)
    if kappa == 1:
        expected = _expected(table)
        least = (rate_of(trials, trials).low - expected) / (1 - expected)
        return Agreement(suite, judges, 1.0, 1.0, least, 1.0, trials)
    rng = np.random.default_rng(0)
    draws = rng.multinomial(trials, (table / trials).ravel(), size=NUM_RESAMPLES).reshape(-1, *table.shape)
    drawn = [each for each in map(_kappa, draws) if each is not None]
    low, high = (float(q) for q in np.quantile(drawn, [0.025, 0.975])) if drawn and kappa is not None else (None, None)
    return Agreement(suite, judges, float(np.trace(table)) / trials, kappa, low, high, trials)


def _table(first: Sequence[Hashable], second: Sequence[Hashable]) -> NDArray[np.float64]:
    """How often the first judge said row and the second said column."""
    assert len(first) == len(second) > 0
    labels = {label: index for index, label in enumerate(dict.fromkeys([*first, *second]))}
    table = np.zeros((len(labels), len(labels)))
    for a, b in zip(first, second, strict=True):
        table[labels[a], labels[b]] += 1
    return table


def _kappa(table: NDArray[np.float64]) -> float | None:
    expected = _expected(table)
    return None if expected == 1 else float((np.trace(table) / table.sum() - expected) / (1 - expected))


def _expected(table: NDArray[np.float64]) -> float:
    """Agreement by chance, from how often each gave each label."""
    return float(table.sum(0) @ table.sum(1)) / float(table.sum()) ** 2
