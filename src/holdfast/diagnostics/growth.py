"""How the sampling part of a gradient grows against the decision part as attempts get longer: like L, or like L²?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from holdfast.diagnostics.attribution import AttributionRow
from holdfast.stats import Estimate

BINS = 6  # lengths at the most


@dataclass(frozen=True, slots=True)
class Growth:
    """ratio ~ L^exponent, fitted on logarithms; the interval is the regression's and needs three lengths."""

    objective: str
    fit: Estimate  # of the exponent
    points: tuple[tuple[float, float], ...]  # (mean attempt length, ratio of norms)

    @property
    def exponent(self) -> float:
        """The power of L."""
        return self.fit.value

    def row(self) -> dict[str, Any]:
        """The exponent and the points, for `--json`."""
        return {"objective": self.objective, **self.fit.to_json(value="exponent"), "points": self.points}


def fit_growth(objective: str, ratios: Mapping[float, float | None]) -> Growth | None:
    """Least squares of log ratio on log length; None where fewer than two lengths have a ratio."""
    points = sorted((length, ratio) for length, ratio in ratios.items() if ratio and length > 0)
    if len({length for length, _ in points}) < 2:
        return None
    x, y = (np.log(np.asarray(column)) for column in zip(*points, strict=True))
    centred = x - x.mean()
    exponent = float(centred @ (y - y.mean()) / (centred @ centred))
    if len(points) < 3:
        return Growth(objective, Estimate(exponent, n=len(points)), tuple(points))
    residual = (y - y.mean()) - exponent * centred
    error = float(np.sqrt(residual @ residual / (len(x) - 2) / (centred @ centred)))
    half = float(stdtrit(len(x) - 2, 0.975)) * error
    fit = Estimate(exponent, exponent - half, exponent + half, len(points), "least squares")
    return Growth(objective, fit, tuple(points))


def by_length(rows: Sequence[AttributionRow]) -> dict[float, list[AttributionRow]]:
    """Rows of similar attempt length, keyed by their mean length; rows without an attempt are left out."""
    known = sorted((row for row in rows if row.attempt_tokens > 0), key=lambda row: row.attempt_tokens)
    distinct = sorted({row.attempt_tokens for row in known})
    if len(distinct) <= BINS:
        groups = [[row for row in known if row.attempt_tokens == length] for length in distinct]
    else:
        groups = [list(part) for part in np.array_split(np.asarray(known, dtype=object), BINS)]
    return {float(np.mean([row.attempt_tokens for row in group])): group for group in groups if group}
