"""Do two judges say the same more often than chance would make them?"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.config.errors import InputError
from holdfast.stats.bootstrap import Floats, Resamples
from holdfast.stats.estimate import Estimate, Unknown
from holdfast.stats.intervals import wilson


def cohen_kappa(
    first: Sequence[Hashable], second: Sequence[Hashable], *, groups: Sequence[Hashable] | None = None
) -> Estimate | Unknown:
    """Cohen's kappa, (observed - expected) / (1 - expected) agreement, with its bootstrap interval.

    ``groups``: which request each answer is to, where several answers are to one request. What is drawn anew is an answer,
    or a request with all answers to it. Where the two never differ no draw does: then the interval comes from Wilson's for the
    agreement. Where one of them gave one label throughout, kappa is 0 in every draw, which says nothing of the next answers:
    then there is no interval. Unknown where both gave one and the same label throughout.
    """
    if not len(first) == len(second) > 0:
        raise InputError(f"kappa: {len(first)} and {len(second)} labels; expected as many of each, at least one")
    tables = _tables(first, second, [0] * len(first) if groups is None else groups)
    num_labels = tables.shape[1]
    table, n = tables.sum(0), len(first)
    value = float(_kappa(table))
    if np.isnan(value):
        return Unknown("undefined: both gave one verdict throughout", n)
    if value == 1:
        num, expected = n if groups is None else len(tables), float(_expected(table))
        least = (wilson(num, num).low - expected) / (1 - expected)
        return Estimate(1.0, least, 1.0, n, "wilson of the agreement")
    if groups is None:  # equal answers are counted up: a pair of labels is a row
        resamples = Resamples.of(np.eye(num_labels**2), times=table.ravel().tolist())
    else:
        resamples = Resamples.of(tables.reshape(len(tables), -1))
    drawn = resamples.estimate(lambda sums: _kappa(sums.reshape(*sums.shape[:-1], num_labels, num_labels)))
    if drawn.low == drawn.high:
        return Estimate(value, n=n)
    return Estimate(value, drawn.low, drawn.high, n, "bootstrap")


def _tables(first: Sequence[Hashable], second: Sequence[Hashable], groups: Sequence[Hashable]) -> Floats:
    """[groups, labels, labels]: how often the first judge said row and the second said column."""
    labels, places = _numbered([*first, *second]), _numbered(groups)
    tables = np.zeros((len(places), len(labels), len(labels)))
    for a, b, group in zip(first, second, groups, strict=True):
        tables[places[group], labels[a], labels[b]] += 1
    return tables


def _numbered(names: Iterable[Hashable]) -> dict[Hashable, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _kappa(tables: Floats) -> NDArray[np.float64]:
    """Kappa of every table [..., labels, labels]; NaN where both gave one label throughout."""
    expected = _expected(tables)
    observed = np.trace(tables, axis1=-2, axis2=-1) / tables.sum((-2, -1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(expected == 1, np.nan, (observed - expected) / (1 - expected)))


def _expected(tables: Floats) -> NDArray[np.float64]:
    """Agreement by chance, from how often each gave each label."""
    return np.asarray((tables.sum(-2) * tables.sum(-1)).sum(-1) / tables.sum((-2, -1)) ** 2)
