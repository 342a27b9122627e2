"""The page put together: parts, data and assets in one file that runs nothing but its own script (by hash)."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from holdfast.records import Role
from holdfast.report.heat import LEVELS, MEANINGS, NAMES, heat_rows
from holdfast.report.lines import LineChart, Series, line_chart, thin
from holdfast.report.microscope import FIGURES, microscope
from holdfast.report.plane import legend_mark, plane, plane_points, utility_limits
from holdfast.report.pooling import Matrix, pool
from holdfast.report.reading import Curve, RunData, finite
from holdfast.report.svg import limits, number, percent
from holdfast.report.text import shown

MAX_CURVES = 24
MAX_CONFIG = 20_000
MAX_MEASURES = 200


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """The charts of one run's training."""

    name: str
    summary: str
    charts: list[tuple[str, LineChart]]


def render(data: RunData) -> str:
    """The whole page as text. The same run gives the same bytes."""
    notes, left_out = list(data.notes), []
    matrix = pool(data.cells) if data.cells else None
    if matrix is None:
        left_out.append("The matrix and the safety-utility plane: no cells in matrix.jsonl.")
    elif matrix.num_repeated:
        notes.append(f"matrix.jsonl: {matrix.num_repeated:,} rows repeat a cell; the last row of each cell counts.")
    planes = _planes(matrix) if matrix else []
    if matrix and not planes:
        left_out.append("The safety-utility plane: no cell has both utility and attack success.")
    depth = _depth(matrix) if matrix else []
    if not depth:
        left_out.append("KL by token position: no cell has kl_by_position.")
    trained = _trained(data.curves, notes)
    if not trained:
        left_out.append("Training curves: no steps.jsonl with figures by role, here or one folder down.")
    answers = microscope(data.answers, notes)
    if answers is None:
        left_out.append("The token microscope: no answers in microscope.json.")
    left_out += ["The audit: no audit.json."] if data.audit is None else []
    left_out += ["The configuration: no config.yaml."] if data.config is None else []
    charts = [chart for _, chart in depth] + [chart for run in trained for _, chart in run.charts]
    payload = {"charts": {chart.key: chart.figures for chart in charts}, "microscope": answers}
    return _template().render(
        run=data,
        matrix=matrix,
        rows=heat_rows(matrix) if matrix else [],
        names=NAMES,
        meanings=MEANINGS,
        levels=range(LEVELS + 1),
        planes=planes,
        legend=[(name, legend_mark(i)) for i, name in enumerate(matrix.defences)] if planes and matrix else [],
        depth=depth,
        trained=trained,
        answers=answers,
        figures=FIGURES,
        audit=None if data.audit is None else _audit(data.audit),
        config=None if data.config is None else shown(data.config, MAX_CONFIG),
        notes=notes,
        left_out=left_out,
        payload=embedded_json(payload),
        **_assets(),
    )


def embedded_json(value: object) -> Markup:
    """JSON for a script element: no character in it can end the element, begin a comment or end a line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_asset("page.html.j2"))


def _assets() -> dict[str, Markup]:
    """Style and script, and the policy that names them by hash: nothing else on the page may run or load."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = [
        "default-src 'none'",
        f"style-src '{_hash(style)}'",
        f"script-src '{_hash(script)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
    ]
    return {"style": Markup(style), "script": Markup(script), "policy": Markup("; ".join(policy))}


def _asset(name: str) -> str:
    # Line endings as an HTML parser leaves them, or the hashes would not hold for a checkout with CRLF.
    return files("holdfast.report").joinpath("assets", name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _planes(matrix: Matrix) -> list[tuple[str, Markup]]:
    across = utility_limits(matrix)
    found = [(attack, plane_points(matrix, attack)) for attack in matrix.attacks]
    return [(attack, plane(attack, points, across)) for attack, points in found if points]


def _depth(matrix: Matrix) -> list[tuple[str, LineChart]]:
    """One chart per attack, one line per defence, the same height for all."""
    series: dict[str, list[Series]] = {}
    for attack in matrix.attacks:
        for colour, defence in enumerate(matrix.defences):
            pooled = matrix.pooled.get((defence, attack))
            values = pooled.kl_by_position() if pooled else []
            if any(value is not None for value in values):
                series.setdefault(attack, []).append(Series(defence, colour, values))
    known = [value for lines in series.values() for line in lines for value in line.values if value is not None]
    charts = []
    for index, (attack, lines) in enumerate(series.items()):
        positions = [float(i + 1) for i in range(max(len(line.values) for line in lines))]
        chart = line_chart(
            f"k{index}",
            attack,
            positions,
            lines,
            x_name="answer token",
            y_name="KL to the anchor (nats)",
            y_limits=limits(known, floor=0),
        )
        charts.append((attack, chart))
    return charts


def _trained(curves: list[Curve], notes: list[str]) -> list[TrainedRun]:
    if len(curves) > MAX_CURVES:
        notes.append(f"steps.jsonl: curves of the first {MAX_CURVES} of {len(curves):,} runs.")
    runs = []
    for number_of_run, curve in enumerate(curves[:MAX_CURVES]):
        charts: list[tuple[str, LineChart]] = []
        for title, groups, figure in _panels(curve):
            values = [group[figure] for group in groups.values()]
            steps, means, width = thin(curve.steps, values)
            lines = [Series(name, _colour(name, i), means[i]) for i, name in enumerate(groups)]
            key, share = f"r{number_of_run}-{len(charts)}", figure == "gradient_share"
            y_name = ("share" if share else "NLL (nats per token)") + (f", means of {width} rows" if width > 1 else "")
            chart = line_chart(
                key,
                f"{curve.name}: {title}",
                steps,
                lines,
                x_name="step",
                y_name=y_name,
                y_text=percent if share else number,
                y_limits=(0.0, 1.04) if share else None,
            )
            charts.append((title, chart))
        if charts:
            runs.append(TrainedRun(curve.name, f"{len(curve.steps):,} rows to step {curve.steps[-1]:,.0f}", charts))
    return runs


def _panels(curve: Curve) -> list[tuple[str, Mapping[str, dict[str, list[float | None]]], str]]:
    """NLL and gradient share by role; NLL by stream where there is more than one. A chart of nothing is left out."""
    panels = [("NLL by role", curve.roles, "nll"), ("Gradient share by role", curve.roles, "gradient_share")]
    panels += [("NLL by stream", curve.streams, "nll")] if len(curve.streams) > 1 else []
    return [panel for panel in panels if any(any(group[panel[2]]) for group in panel[1].values())]


def _colour(name: str, index: int) -> int:
    labels = [role.label for role in Role if role is not Role.PROMPT]
    return labels.index(name) if name in labels else index


def _audit(audit: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str, str]]:
    """Measures with value and interval, groups flattened; anything else as it is written."""
    rows: list[tuple[str, str, str]] = []
    for name, value in list(audit.items())[:MAX_MEASURES]:
        label = prefix + shown(name, 80)
        if isinstance(value, dict) and "value" in value:
            low, high = finite(value.get("low")), finite(value.get("high"))
            interval = "" if low is None or high is None else f"{number(low)} to {number(high)}"
            rows.append((label, _plain(value["value"]), interval))
        elif isinstance(value, dict) and value and prefix.count("/") < 4:
            rows += _audit(value, f"{label} / ")
        else:
            rows.append((label, _plain(value), ""))
    return rows[:MAX_MEASURES]


def _plain(value: object) -> str:
    known = finite(value)
    if known is not None:
        return number(known)
    return shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
