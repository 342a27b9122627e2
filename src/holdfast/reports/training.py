"""Training curves: what a run logged by role and by stream, and what the runs of a matrix logged beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.records import Role
from holdfast.reports.lines import LineChart, Series, line_chart, thin
from holdfast.reports.reading import Curve
from holdfast.reports.svg import number, percent

MAX_CURVES = 24
Charts = list[tuple[str, LineChart]]


class TrainedRun(NamedTuple):
    """The charts of one run's training."""

    name: str
    summary: str
    charts: Charts


class Panel(NamedTuple):
    """A chart to be drawn: lines by name, one value for each step."""

    title: str
    y_name: str
    lines: Mapping[str, list[float | None]]
    share: bool = False


def compared_runs(curves: Sequence[Curve]) -> Charts:
    """Charts for a matrix: under every attack, how fast each defence learned the rows that all of them were given."""
    defences = sorted({curve.defence for curve in curves if curve.attack})
    charts: Charts = []
    for attack in sorted({curve.attack for curve in curves if curve.attack}):
        of_attack = [curve for curve in curves if curve.attack == attack and curve.task]
        if len(of_attack) < 2 or len({tuple(curve.steps) for curve in of_attack}) > 1:
            continue
        lines = [Series(curve.defence, defences.index(curve.defence), curve.task) for curve in of_attack]
        chart = line_chart(
            f"t{len(charts)}",
            attack,
            of_attack[0].steps,
            lines,
            x_name="step",
            y_name="NLL of the task's rows (nats per token)",
        )
        charts.append((attack, chart))
    return charts


def trained_runs(curves: Sequence[Curve], notes: list[str]) -> list[TrainedRun]:
    """Every run by itself."""
    if len(curves) > MAX_CURVES:
        notes.append(f"Training curves: the first {MAX_CURVES} of {len(curves):,} runs.")
    return drawn_runs("r", {index: (curve, _panels(curve)) for index, curve in enumerate(curves[:MAX_CURVES])})


def drawn_runs(key: str, panels_of: Mapping[int, tuple[Curve, Sequence[Panel]]]) -> list[TrainedRun]:
    """The runs, by number, that have something to draw."""
    return [
        TrainedRun(
            curve.name,
            f"{len(curve.steps):,} rows to step {curve.steps[-1]:,.0f}",
            _charts(f"{key}{index}", curve, panels),
        )
        for index, (curve, panels) in panels_of.items()
        if panels
    ]


def _charts(key: str, curve: Curve, panels: Sequence[Panel]) -> Charts:
    charts: Charts = []
    for title, y_name, lines, share in panels:
        steps, means, width = thin(curve.steps, list(lines.values()))
        chart = line_chart(
            f"{key}-{len(charts)}",
            f"{curve.name}: {title}",
            steps,
            [Series(name, role_colour(name, i), means[i]) for i, name in enumerate(lines)],
            x_name="step",
            y_name=y_name + (f", means of {width} rows" if width > 1 else ""),
            y_text=percent if share else number,
            y_limits=(0.0, 1.04) if share else None,
        )
        charts.append((title, chart))
    return charts


def _panels(curve: Curve) -> list[Panel]:
    """NLL by role; gradient share and NLL by stream where there is more than one; the drift of streams with a budget.

    A chart of nothing is left out.
    """
    nll = "NLL (nats per token)"
    panels = [Panel("NLL by role", nll, _lines(curve.roles, "nll"))]
    if len(curve.roles) > 1:
        panels.append(Panel("Gradient share by role", "share", _lines(curve.roles, "gradient_share"), share=True))
    if len(curve.streams) > 1:
        panels.append(Panel("NLL by stream", nll, _lines(curve.streams, "nll")))
    held = {name: group for name, group in curve.streams.items() if any(group["lambda_early"])}
    panels += _held_panels(held) if held else []
    return [panel for panel in panels if any(any(line) for line in panel.lines.values())]


def _held_panels(held: Mapping[str, dict[str, list[float | None]]]) -> list[Panel]:
    """How far streams with a budget drifted and how hard they were held: over the first tokens of an answer, and after them."""
    both = {}
    for figure in ("lambda", "integral"):
        late = {f"{name}, later tokens": line for name, line in _lines(held, f"{figure}_late").items() if any(line)}
        both[figure] = {**_lines(held, f"{figure}_early"), **late}
    return [
        Panel("Drift of held streams", "nats per answer", _lines(held, "kbar_early")),
        Panel("Drift of held streams, later tokens", "nats per token", _lines(held, "kbar_late")),
        Panel("Weight of held streams", "lambda", both["lambda"]),
        Panel("Integral of held streams", "log lambda without its fast part", both["integral"]),
    ]


def _lines(groups: Mapping[str, dict[str, list[float | None]]], figure: str) -> dict[str, list[float | None]]:
    return {name: group[figure] for name, group in groups.items()}


def role_colour(name: str, index: int) -> int:
    """A role has the same colour in every chart; other lines by their number."""
    labels = [role.label for role in Role if role is not Role.PROMPT]
    return labels.index(name) if name in labels else index
