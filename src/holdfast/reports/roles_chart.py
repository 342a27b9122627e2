"""One figure of every role under every objective: bars, or marks where the axis is logarithmic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from holdfast.reports.plane import shape
from holdfast.reports.svg import BOTTOM, TOP, WIDTH, Axis, limits, log_ticks, number, percent, series_class, tag, ticks

NAMES, RIGHT = 112, 18  # room for the objectives' names, and beside the last tick
LANE, GAP = 9, 8  # one role's height, and the space between two objectives
Values = Mapping[tuple[str, str], float | None]


def roles_chart(
    title: str,
    objectives: Sequence[str],
    roles: Sequence[str],
    values: Values,
    *,
    log: bool = False,
    share: bool = False,
) -> Markup:
    """Objectives one under the other, their roles in each. What has no place on the axis is written: 0, or – if unknown.

    A bar's length means nothing on a logarithmic axis, so there a mark shows the value; ``share``: in per cent.
    """
    text = percent if share else number
    known = [value for value in values.values() if value is not None]
    low, high = log_limits(known) if log else limits(known, floor=0.0)
    band = LANE * len(roles) + GAP
    bottom = TOP + band * len(objectives)
    x = Axis(low, high, NAMES, WIDTH - RIGHT)
    rows = []
    for row, objective in enumerate(objectives):
        top = TOP + band * row + GAP / 2
        rows.append(_name(objective, top + LANE * len(roles) / 2 + 4))
        for lane, role in enumerate(roles):
            value = values.get((objective, role))
            drawn = _drawn(value, lane, x, top + LANE * lane, log)
            rows.append(_with_tip(drawn, f"{objective}, {role}: {'unknown' if value is None else text(value)}", lane))
    return tag(
        "svg",
        _axis(x, bottom, (lambda value: number(10.0**value)) if log else text, log),
        *rows,
        viewBox=f"0 0 {WIDTH} {bottom + BOTTOM}",
        class_="chart roles",
        role="group",
        aria_label=f"{title} by objective and role",
        data_roving="mark",
    )


def log_limits(values: Sequence[float]) -> tuple[float, float]:
    """The range of an axis of powers of ten: at least half a decade, whatever is not positive left aside."""
    low, high = limits([math.log10(value) for value in values if value > 0], room=0.06)
    short = max(0.0, 0.5 - (high - low)) / 2
    return low - short, high + short


def _drawn(value: float | None, lane: int, x: Axis, top: float, log: bool) -> Markup:
    if value is None or (log and value <= 0):
        text = "–" if value is None else number(value)
        return tag("text", text, class_="tick", x=x.start + 4, y=top + LANE)
    if log:
        return shape(lane, x(math.log10(value)), top + LANE / 2)
    left, right = sorted((x(0.0), x(value)))
    return tag("rect", class_="bar", x=left, y=top + 0.5, width=max(right - left, 0.8), height=LANE - 1)


def _with_tip(drawn: Markup, tip: str, lane: int) -> Markup:
    return tag("g", drawn, class_=f"mark {series_class(lane)}", role="img", aria_label=tip, data_tip=tip)


def _name(objective: str, y: float) -> Markup:
    short = objective if len(objective) <= 16 else objective[:15] + "…"
    return tag("text", short, class_="tick", x=NAMES - 8, y=y, text_anchor="end")


def _axis(x: Axis, bottom: float, text: Callable[[float], str], log: bool) -> Markup:
    """Hairlines down the chart at round values; a firm one at zero, where bars begin."""
    parts = []
    for value in log_ticks(x.low, x.high) if log else ticks(x.low, x.high, 5):
        style = "axis" if value == 0 and not log else "grid"
        parts.append(tag("line", class_=style, x1=x(value), x2=x(value), y1=TOP, y2=bottom + 4))
        parts.append(tag("text", text(value), class_="tick", x=x(value), y=bottom + 17, text_anchor="middle"))
    return Markup("").join(parts)
