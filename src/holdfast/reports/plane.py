"""The safety-utility plane of one attack: utility to the right, requests withstood upwards, the Pareto front."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from holdfast.reports.measures import beside_lines, names_of, rate_text
from holdfast.reports.pooling import Matrix, pareto
from holdfast.reports.svg import BOTTOM, HEIGHT, LEFT, TOP, WIDTH, Axis, frame, limits, percent, series_class, tag
from holdfast.stats import Estimate

RIGHT = 18
CHARACTER = 6.4  # a label's width per character, near enough to keep labels apart


@dataclass(frozen=True, slots=True)
class Point:
    """One defence under one attack."""

    name: str
    colour: int
    utility: Estimate
    asr: Estimate
    counted: str  # what ``asr`` counts
    beside: tuple[str, ...]  # figures that it must not be read without

    @property
    def place(self) -> tuple[float, float]:
        """Utility, and the share of forbidden requests not complied with."""
        return self.utility.value, 1 - self.asr.value


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle that labels keep clear of."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two overlap."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def plane_points(matrix: Matrix, attack: str) -> list[Point]:
    """The defences that have both figures under this attack."""
    points, names = [], names_of(matrix)
    for colour, defence in enumerate(matrix.defences):
        pooled = matrix.pooled.get((defence, attack))
        utility, asr = (pooled.rate("utility"), pooled.rate("asr")) if pooled else (None, None)
        if pooled and utility and asr:
            beside = tuple(beside_lines(pooled, names))
            points.append(Point(defence, colour, utility, asr, names["asr"], beside))
    return points


def utility_limits(matrix: Matrix) -> tuple[float, float]:
    """One range of utility for every attack, so that the planes compare."""
    rates = [point.utility for attack in matrix.attacks for point in plane_points(matrix, attack)]
    low, high = limits([rate.low for rate in rates] + [rate.high for rate in rates], room=0.06)
    return max(-0.02, min(low, high - 0.1)), min(1.02, max(high, low + 0.1))


def plane(attack: str, points: list[Point], across: tuple[float, float]) -> Markup:
    """Draw the plane. Every mark is one stop of the arrow keys and tells its figures."""
    x = Axis(*across, LEFT, WIDTH - RIGHT)
    y = Axis(-0.02, 1.04, HEIGHT - BOTTOM, TOP)
    front = pareto([point.place for point in points])
    return tag(
        "svg",
        frame(x, y, "utility", f"withstood (1 − {points[0].counted})" if points else "withstood", percent, percent),
        tag("path", class_="front", d=_front([points[i].place for i in front], x, y)),
        *(_mark(point, x, y, index in front) for index, point in enumerate(points)),
        _labels(points, x, y),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        class_="chart plane",
        role="group",
        aria_label=f"Safety and utility under {attack}",
        data_roving="mark",
    )


def _front(places: list[tuple[float, float]], x: Axis, y: Axis) -> str:
    """The edge of what is dominated, a staircase: left to the axis from the safest, down from the most useful."""
    if not places:
        return ""
    steps = [f"M{x.start:g} {y(places[0][1]):g}H{x(places[0][0]):g}"]
    steps += [f"V{y(place[1]):g}H{x(place[0]):g}" for place in places[1:]]
    return "".join(steps) + f"V{y.start:g}"


def _mark(point: Point, x: Axis, y: Axis, on_front: bool) -> Markup:
    at_x, at_y = x(point.place[0]), y(point.place[1])
    figures = (f"utility {rate_text(point.utility)}", f"{point.counted} {rate_text(point.asr)}", *point.beside)
    tip = "\n".join((point.name, *figures, *(("on the Pareto front",) if on_front else ())))
    return tag(
        "g",
        tag("line", class_="whisker", x1=x(point.utility.low), x2=x(point.utility.high), y1=at_y, y2=at_y),
        tag("line", class_="whisker", x1=at_x, x2=at_x, y1=y(1 - point.asr.low), y2=y(1 - point.asr.high)),
        shape(point.colour, at_x, at_y),
        class_=f"mark {series_class(point.colour)}",
        role="img",
        aria_label=tip.replace("\n", ", "),
        data_tip=tip,
    )


_SHAPES = (
    "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0",  # circle
    "M-5-5H5V5H-5Z",  # square
    "M0-6.5L6.5 0L0 6.5L-6.5 0Z",  # diamond
    "M0-6L6 5H-6Z",  # triangle
    "M0 6L6-5H-6Z",  # triangle, point down
    "M-6-2H-2V-6H2V-2H6V2H2V6H-2V2H-6Z",  # cross
)


def shape(colour: int, x: float, y: float) -> Markup:
    """The shape of a series, drawn at a place."""
    return tag("path", class_="shape", d=_SHAPES[colour % len(_SHAPES)], transform=f"translate({x:g} {y:g})")


def _labels(points: list[Point], x: Axis, y: Axis) -> Markup:
    """A name beside each mark where there is room for it; the legend has the rest."""
    taken = []
    for point in points:
        at_x, at_y = x(point.place[0]), y(point.place[1])
        taken.append(Box(at_x - 7, at_y - 7, at_x + 7, at_y + 7))
        taken.append(Box(x(point.utility.low), at_y - 1, x(point.utility.high), at_y + 1))
        taken.append(Box(at_x - 1, y(1 - point.asr.low), at_x + 1, y(1 - point.asr.high)))
    labels = []
    for point in points:
        at_x, at_y, width = x(point.place[0]), y(point.place[1]), CHARACTER * len(point.name)
        for dx, dy in ((10, -8), (10, 16), (-10 - width, -8), (-10 - width, 16), (10, -22), (-10 - width, -22)):
            box = Box(at_x + dx, at_y + dy - 10, at_x + dx + width, at_y + dy + 3)
            inside = box.left > x.start and box.right < WIDTH and box.top > 16 and box.bottom < y.start
            if inside and not any(box.meets(other) for other in taken):
                taken.append(box)
                text = tag("text", point.name, class_=f"label {series_class(point.colour)}", x=box.left, y=at_y + dy)
                labels.append(text)
                break
    return Markup("").join(labels)


def legend_mark(colour: int) -> Markup:
    """The shape and colour of a series, for the legend."""
    shape = tag("path", class_="shape", d=_SHAPES[colour % len(_SHAPES)])
    return tag("svg", shape, viewBox="-8 -8 16 16", class_=f"key {series_class(colour)}", aria_hidden="true")
