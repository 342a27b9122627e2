"""Decide and sample: accuracy, p_s, p_dC and p_dW of every model by size, from what `holdfast diagnose decisions` left."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from holdfast.reports.lines import LineChart, Series, line_chart
from holdfast.reports.reading import finite
from holdfast.reports.svg import percent
from holdfast.reports.text import named

RATES = {
    "observed": "accuracy",
    "p_s": "p_s: a first attempt is right",
    "p_dC": "p_dC: stops on a right attempt",
    "p_dW": "p_dW: tries again after a wrong one",
}
MAX_MODELS = 12


def decisions_part(cells: Sequence[Mapping[str, object]]) -> list[tuple[str, LineChart]]:
    """One chart per rate, one line per model; sizes stand by the steps of an attempt. A rate that is unknown is a gap."""
    by_model: dict[str, dict[float, Mapping[str, object]]] = {}
    for cell in cells:
        steps = _steps(cell.get("size"))
        if steps is not None:
            by_model.setdefault(named(str(cell.get("model") or "?"), 40), {})[steps] = cell
    models = list(by_model)[:MAX_MODELS]
    sizes = sorted({steps for model in models for steps in by_model[model]})
    if len(sizes) < 2:
        return []
    charts = []
    for number, (rate, title) in enumerate(RATES.items()):
        lines = [
            Series(model, index, [_value(by_model[model].get(size, {}), rate) for size in sizes])
            for index, model in enumerate(models)
        ]
        chart = line_chart(
            f"decisions{number}",
            title,
            sizes,
            lines,
            x_name="steps of an attempt",
            y_name=title.partition(":")[0],
            y_limits=(0.0, 1.0),
            y_text=percent,
        )
        charts.append((title, chart))
    return charts


def _steps(size: object) -> float | None:
    """The steps of an attempt of that size: 27 for ``3x9``."""
    sides = re.fullmatch(r"(\d{1,3})x(\d{1,3})", str(size))
    return None if sides is None else float(int(sides[1]) * int(sides[2]))


def _value(cell: Mapping[str, object], rate: str) -> float | None:
    figure = cell.get(rate)
    return finite(figure.get("value")) if isinstance(figure, Mapping) else None
