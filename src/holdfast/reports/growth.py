"""A growth law on logarithmic axes: the ratios, the fitted power of L with its interval, and the slopes of L and L²."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from holdfast.reports.plane import shape
from holdfast.reports.reading import finite
from holdfast.reports.roles_chart import log_limits
from holdfast.reports.svg import BOTTOM, LEFT, TOP, Axis, frame, number, tag
from holdfast.reports.text import named
from holdfast.stats import Estimate

WIDTH, HEIGHT, RIGHT = 280, 220, 14
STEEPEST = 99.0  # of what is drawn: beyond it a slope looks upright anyway
LARGEST = 1e100
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Law:
    """ratio ~ L^exponent, as `holdfast diagnose attribution` fitted it on ``points``; two points give no interval."""

    objective: str
    fit: Estimate  # of the exponent
    points: Points

    @property
    def text(self) -> str:
        """The exponent in words."""
        return f"~ L^{self.fit:.1f}" + ("" if self.fit.has_interval else " no interval")


@dataclass(frozen=True, slots=True)
class DrawnLaw:
    """A law with its picture."""

    objective: str
    text: str
    svg: Markup


def read_law(row: Mapping[str, object]) -> Law | None:
    """A law that can be drawn, or None."""
    points, exponent = row.get("points"), finite(row.get("exponent"))
    drawable = [_point(pair) for pair in points] if isinstance(points, list) else []
    known = [point for point in drawable if point is not None]
    if exponent is None or len({length for length, _ in known}) < 2:
        return None
    low, high = finite(row.get("low")), finite(row.get("high"))
    fit = Estimate(exponent) if low is None or high is None else Estimate(exponent, low, high)
    return Law(named(str(row.get("objective") or "?")), fit, known)


def _point(pair: object) -> tuple[float, float] | None:
    values = [finite(value) for value in pair] if isinstance(pair, list) else []
    drawable = [value for value in values if value is not None and 1 / LARGEST < value < LARGEST]
    return (drawable[0], drawable[1]) if len(values) == len(drawable) == 2 else None


def draw_laws(laws: Sequence[Law]) -> list[DrawnLaw]:
    """One panel per law, all with the same axes, so that they compare."""
    points = [point for law in laws for point in law.points]
    if not points:
        return []
    x = Axis(*log_limits([length for length, _ in points]), LEFT, WIDTH - RIGHT)
    y = Axis(*log_limits([ratio for _, ratio in points]), HEIGHT - BOTTOM, TOP)
    return [DrawnLaw(law.objective, law.text, _panel(law, x, y)) for law in laws]


def _panel(law: Law, x: Axis, y: Axis) -> Markup:
    return tag(
        "svg",
        frame(x, y, "L (tokens of an attempt)", "|sample| / |decision|", _power, _power, log=True),
        _inside(_slopes(law, x, y), x, y),
        *(_mark(point, x, y) for point in law.points),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        class_="chart growth",
        role="group",
        aria_label=f"{law.objective}: ratio of norms by length of an attempt, {law.text}",
        data_roving="mark",
    )


def _slopes(law: Law, x: Axis, y: Axis) -> list[Markup]:
    """Lines for comparison. All run through the middle of the points, as a least-squares line does."""
    middle = [sum(math.log10(value) for value in column) / len(law.points) for column in zip(*law.points, strict=True)]

    def ends(slope: float) -> list[str]:
        slope = max(-STEEPEST, min(STEEPEST, slope))
        return [f"{x(at):g} {y(middle[1] + slope * (at - middle[0])):g}" for at in (x.low, x.high)]

    parts = []
    if law.fit.has_interval:
        around = [*ends(law.fit.low), *reversed(ends(law.fit.high))]  # two triangles that meet in the middle
        parts.append(tag("path", class_="spread s0", d=f"M{'L'.join(around)}Z"))
    parts += [tag("path", class_="line before", d="M" + "L".join(ends(slope))) for slope in (1.0, 2.0)]
    return [*parts, tag("path", class_="line s0", d="M" + "L".join(ends(law.fit.value)))]


def _inside(parts: Sequence[Markup], x: Axis, y: Axis) -> Markup:
    """An inner picture with the same coordinates, which cuts off what runs out of the frame."""
    left, top, width, height = x.start, y.stop, x.stop - x.start, y.start - y.stop
    box = f"{left:g} {top:g} {width:g} {height:g}"
    return tag("svg", *parts, x=left, y=top, width=width, height=height, viewBox=box)


def _mark(point: tuple[float, float], x: Axis, y: Axis) -> Markup:
    tip = f"L {number(point[0])}: ratio {number(point[1])}"
    drawn = shape(0, x(math.log10(point[0])), y(math.log10(point[1])))
    return tag("g", drawn, class_="mark s0", role="img", aria_label=tip, data_tip=tip)


def _power(value: float) -> str:
    return number(10.0**value)
