"""Gradients by role: what `holdfast diagnose attribution --json RUN/attribution.json` left, as pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from holdfast.reports.growth import LARGEST, DrawnLaw, draw_laws, read_law
from holdfast.reports.plane import legend_mark
from holdfast.reports.reading import finite, objects_in
from holdfast.reports.roles_chart import roles_chart
from holdfast.reports.svg import NUM_COLOURS
from holdfast.reports.text import named

FIGURES = {
    "share": "Share of the gradient",
    "cosine": "Cosine with the whole gradient",
    "norm": "Norm",
    "per_token_norm": "Norm per token",
}
MAX_OBJECTIVES = 32


@dataclass(frozen=True, slots=True)
class AttributionPart:
    """The charts of the split, the laws of its growth, and what they were measured on."""

    about: str
    legend: list[tuple[str, Markup]]
    splits: list[tuple[str, Markup]]
    growth: list[DrawnLaw]


def attribution_part(report: Mapping[str, object], notes: list[str]) -> AttributionPart | None:
    """The command's report as pictures; None, with a note, where it holds nothing to draw."""
    rows = {(_name(row, "objective"), _name(row, "role")): row for row in objects_in(report.get("rows"))}
    objectives = list(dict.fromkeys(objective for objective, _ in rows))
    roles = list(dict.fromkeys(role for _, role in rows))
    if not rows:
        notes.append("attribution.json: no rows of gradients by role: left out.")
        return None
    if len(objectives) > MAX_OBJECTIVES:
        notes.append(f"attribution.json: the first {MAX_OBJECTIVES} of {len(objectives):,} objectives.")
    if len(roles) > NUM_COLOURS:
        notes.append(f"attribution.json: the first {NUM_COLOURS} of {len(roles):,} roles.")
    objectives, roles = objectives[:MAX_OBJECTIVES], roles[:NUM_COLOURS]
    splits = []
    for figure, title in FIGURES.items():
        values = {(o, r): _value(rows[o, r], figure) for o in objectives for r in roles if (o, r) in rows}
        log = "norm" in figure
        splits.append((title, roles_chart(title, objectives, roles, values, log=log, share=figure == "share")))
    laws = [law for row in objects_in(report.get("growth"))[:MAX_OBJECTIVES] if (law := read_law(row))]
    legend = [(role, legend_mark(colour)) for colour, role in enumerate(roles)]
    return AttributionPart(_about(report), legend, splits, draw_laws(laws))


def _about(report: Mapping[str, object]) -> str:
    model, responses = named(str(report.get("model") or "a model"), 120), finite(report.get("responses"))
    anchor = f", reference {named(str(report['anchor']), 120)}" if report.get("anchor") else ""
    return f"{'' if responses is None else f'{responses:,.0f} responses under '}{model}{anchor}."


def _name(row: Mapping[str, object], key: str) -> str:
    return named(str(row.get(key) or "?"), 40)


def _value(row: Mapping[str, object], figure: str) -> float | None:
    value = finite(row.get(figure))
    return value if value is not None and (value == 0 or 1 / LARGEST < abs(value) < LARGEST) else None
