"""Divergence by position in the answer: how far tuning moved a model, and how much of its alignment is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.reports.lines import LineChart, Series, line_chart
from holdfast.reports.pooling import Matrix, mean_at
from holdfast.reports.reading import DepthLine, RunData, finite
from holdfast.reports.svg import limits

X_NAME = "answer token"


@dataclass(frozen=True, slots=True)
class DepthPart:
    """Charts that answer one question."""

    title: str
    intro: str
    charts: list[tuple[str, LineChart]]


def depth_parts(data: RunData, matrix: Matrix | None) -> list[DepthPart]:
    """What there is: of a matrix, the way from the anchor and to the parent; of a run or an audit, the way from the anchor."""
    parts = []
    if matrix:
        moved = _charts("k", _moved(matrix), "KL to the anchor (nats)")
        intro = (
            "KL divergence of the tuned model from the aligned one, reading the forbidden answer; mean over seeds."
            " A peak at the first tokens: tuning moved how answers begin. Each chart has its own scale."
        )
        parts += [DepthPart("How far tuning moved the model", intro, moved)] if moved else []
        left = _charts("b", _before_after(data.depth, matrix.defences), f"KL to {data.depth_to} (nats)")
        intro = (
            f"KL divergence from {data.depth_to}, the model before it was aligned. Dashed: the aligned model before tuning."
            " A line that has fallen below it has lost that much of the alignment; one above it has moved elsewhere."
        )
        parts += [DepthPart("How much of the alignment is left", intro, left)] if left else []
    elif data.depth:
        charts = _charts("b", _before_after(data.depth, []), "KL to the anchor (nats)")
        count = ", ".join(f"{line.name} {line.num_answers}" for line in data.depth)
        intro = (
            f"KL divergence of the trained model from its anchor, {data.depth_to}, on rows of the training data;"
            f" mean over answers ({count}). Dashed, where shown: before training."
        )
        parts.append(DepthPart("How far training moved the model, by stream", intro, charts))
    audited = data.audit.get("kl_by_position") if data.audit else None
    if isinstance(audited, list) and (values := [finite(value) for value in audited]):
        charts = _charts("a", {"": [Series("model", 0, values)]}, "KL to the anchor (nats)")
        intro = "KL divergence of the audited model from its anchor on the requests of the audit."
        parts.append(DepthPart("How far the audited model is from its anchor", intro, charts))
    return [part for part in parts if part.charts]


def _moved(matrix: Matrix) -> dict[str, list[Series]]:
    series: dict[str, list[Series]] = {}
    for attack in matrix.attacks:
        for colour, defence in enumerate(matrix.defences):
            pooled = matrix.pooled.get((defence, attack))
            values = pooled.kl_by_position() if pooled else []
            if any(value is not None for value in values):
                series.setdefault(attack, []).append(Series(defence, colour, values))
    return series


def _before_after(lines: Sequence[DepthLine], order: Sequence[str]) -> dict[str, list[Series]]:
    """One line per name, seeds averaged; what was before is one dashed line where there is anything to see."""
    names = list(order)
    if not any(line.name in names for line in lines):
        names = list(dict.fromkeys(line.name for line in lines))
    series: dict[str, list[Series]] = {}
    for group in dict.fromkeys(line.group for line in lines):
        of_group = [line for line in lines if line.group == group and line.name in names]
        befores = mean_at([line.before for line in of_group])
        drawn = [Series("before", None, befores)] if any(befores) else []
        for colour, name in enumerate(names):
            rows = [line.after for line in of_group if line.name == name]
            drawn += [Series(name, colour, mean_at(rows))] if rows else []
        if of_group:
            series[group] = drawn
    return series


def _charts(key: str, series: dict[str, list[Series]], y_name: str) -> list[tuple[str, LineChart]]:
    """One chart per group, each with a scale of its own: what matters is the shape along the answer."""
    charts = []
    for index, (group, lines) in enumerate(sorted(series.items())):
        positions = [float(i + 1) for i in range(max(len(line.values) for line in lines))]
        y_limits = limits([value for line in lines for value in line.values if value is not None], floor=0)
        chart = line_chart(f"{key}{index}", group, positions, lines, x_name=X_NAME, y_name=y_name, y_limits=y_limits)
        charts.append((group, chart))
    return charts
