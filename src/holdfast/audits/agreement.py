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


def agreement(
    suite: str,
    judges: tuple[str, str],
    first: Sequence[Hashable],
    second: Sequence[Hashable],
    *,
    asked: Sequence[int] | None = None,
) -> Agreement:
    """Kappa with its bootstrap interval. What is drawn anew is an answer, or a request with all answers to it.

    ``asked``: the number of the request behind each answer, from 0 on, where several answers are to one request.
    Where the two never differ, no draw does: there Wilson's interval of the agreement is put into kappa.
    """
    table = _table(first, second)
    trials, kappa = len(first), _kappa(table)
    if kappa == 1:
        expected, num = _expected(table), trials if asked is None else len({*asked})
        least = (rate_of(num, num).low - expected) / (1 - expected)
        return Agreement(suite, judges, 1.0, 1.0, least, 1.0, trials)
    drawn = [each for each in map(_kappa, _resampled(first, second, asked)) if each is not None]
    low, high = (float(q) for q in np.quantile(drawn, [0.025, 0.975])) if drawn and kappa is not None else (None, None)
    return Agreement(suite, judges, float(np.trace(table)) / trials, kappa, low, high, trials)


def _resampled(
    first: Sequence[Hashable], second: Sequence[Hashable], asked: Sequence[int] | None
) -> NDArray[np.float64]:
    """Tables of label pairs. Without requests that come again, the counts of pairs are all there is to resample."""
    rng = np.random.default_rng(0)
    if asked is None:
        table = _table(first, second)
        drawn = rng.multinomial(len(first), (table / len(first)).ravel(), size=NUM_RESAMPLES)
        return drawn.reshape(-1, *table.shape).astype(float)
    tables = _tables(first, second, asked)
    draws = rng.multinomial(len(tables), np.full(len(tables), 1 / len(tables)), size=NUM_RESAMPLES)
    summed: NDArray[np.float64] = np.einsum("dr,rij->dij", draws, tables)
    return summed


def _table(first: Sequence[Hashable], second: Sequence[Hashable]) -> NDArray[np.float64]:
    """How often the first judge said row and the second said column."""
    return np.asarray(_tables(first, second, [0] * len(first))[0])


def _tables(first: Sequence[Hashable], second: Sequence[Hashable], asked: Sequence[int]) -> NDArray[np.float64]:
    """The same for every request."""
    assert len(first) == len(second) > 0
    labels = {label: index for index, label in enumerate(dict.fromkeys([*first, *second]))}
    tables = np.zeros((max(asked) + 1, len(labels), len(labels)))
    for a, b, request in zip(first, second, asked, strict=True):
        tables[request, labels[a], labels[b]] += 1
    return tables


def _kappa(table: NDArray[np.float64]) -> float | None:
    expected = _expected(table)
    return None if expected == 1 else float((np.trace(table) / table.sum() - expected) / (1 - expected))


def _expected(table: NDArray[np.float64]) -> float:
    """Agreement by chance, from how often each gave each label."""
    return float(table.sum(0) @ table.sum(1)) / float(table.sum()) ** 2
