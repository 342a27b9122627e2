"""Line charts: KL by token position, and training curves. A reading line follows pointer or arrow keys (page.js)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from holdfast.reports.svg import BOTTOM, HEIGHT, LEFT, TOP, WIDTH, Axis, frame, limits, number, series_class, tag

RIGHT = 104  # room for the names at the ends of the lines
MAX_POINTS = 160
LABEL_STEP = 13.0


@dataclass(frozen=True, slots=True)
class Series:
    """One line: a name, the number of its colour (None: grey and dashed, to compare with), a value for each x."""

    name: str
    colour: int | None
    values: Sequence[float | None]  # None: a gap

    @property
    def style(self) -> str:
        """Its class in page.css."""
        return "before" if self.colour is None else series_class(self.colour)


@dataclass(frozen=True, slots=True)
class LineChart:
    """A drawn chart and the figures that the reading line tells."""

    key: str
    svg: Markup
    figures: dict[str, object]


def line_chart(
    key: str,
    title: str,
    x_values: Sequence[float],
    series: Sequence[Series],
    *,
    x_name: str,
    y_name: str,
    y_limits: tuple[float, float] | None = None,
    y_text: Callable[[float], str] = number,
) -> LineChart:
    """Draw lines over a common x. ``key`` joins the picture to its figures in the page's data."""
    low_x, high_x = min(x_values), max(x_values)
    known = [value for line in series for value in line.values if value is not None]
    low_y, high_y = y_limits or limits(known, floor=0.0)
    x = Axis(low_x, max(high_x, low_x + 1), LEFT, WIDTH - RIGHT)
    y = Axis(low_y, high_y, HEIGHT - BOTTOM, TOP)
    paths = [tag("path", class_=f"line {line.style}", d=_path(x_values, line.values, x, y)) for line in series]
    svg = tag(
        "svg",
        frame(x, y, x_name, y_name, number, y_text, whole=True),
        *paths,
        _end_labels(series, y),
        tag("line", class_="cursor", x1=x.start, x2=x.start, y1=y.start, y2=y.stop, visibility="hidden"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        class_="chart lines",
        role="img",
        tabindex=0,
        aria_label=f"{title}. {y_name} by {x_name}: {', '.join(line.name for line in series)}. Arrow keys read values.",
        data_chart=key,
    )
    figures = {
        "x": [float(f"{value:.6g}") for value in x_values],
        "xName": x_name,
        "percent": y_text is not number,
        "px": [x(value) for value in x_values],
        "series": [[line.name, [None if v is None else float(f"{v:.4g}") for v in line.values]] for line in series],
    }
    return LineChart(key, svg, figures)


def thin(
    x_values: Sequence[float], columns: Sequence[Sequence[float | None]]
) -> tuple[list[float], list[list[float | None]], int]:
    """At most ``MAX_POINTS`` points: means over runs of equal length. Also returns that length (1: nothing thinned)."""
    width = -(-len(x_values) // MAX_POINTS)
    cuts = range(0, len(x_values), width)
    means = [[_mean(column[start : start + width]) for start in cuts] for column in columns]
    return [x_values[min(start + width, len(x_values)) - 1] for start in cuts], means, width


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _path(x_values: Sequence[float], values: Sequence[float | None], x: Axis, y: Axis) -> str:
    parts, pen = [], "M"
    for index, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        parts.append(f"{pen}{x(x_values[index]):g} {y(value):g}")
        alone = pen == "M" and (index + 1 == len(values) or values[index + 1] is None)
        parts += ["h.01"] if alone else []  # a point with no neighbour: round caps make it a dot
        pen = "L"
    return "".join(parts)


def _end_labels(series: Sequence[Series], y: Axis) -> Markup:
    """Names beside the ends of their lines, pushed apart where they would overlap."""
    ends = []
    for line in series:
        last = next((value for value in reversed(line.values) if value is not None), None)
        if last is not None:
            ends.append((y(last), line))
    ends.sort(key=lambda end: end[0])
    places: list[float] = []
    for at, _ in ends:
        places.append(max(at, places[-1] + LABEL_STEP) if places else at)
    overflow = places[-1] - y.start if places else 0.0
    for index in range(len(places) - 1, -1, -1):
        ceiling = places[index] - overflow if index == len(places) - 1 else places[index + 1] - LABEL_STEP
        places[index] = min(places[index], ceiling) if overflow > 0 else places[index]
    labels = [
        tag(
            "text",
            line.name if len(line.name) <= 15 else line.name[:14] + "…",
            class_=f"label {line.style}",
            x=WIDTH - RIGHT + 8,
            y=place + 4,
        )
        for place, (_, line) in zip(places, ends, strict=True)
    ]
    return Markup("").join(labels)
