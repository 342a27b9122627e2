"""Just enough SVG: an escaped element, a linear scale with round ticks, the frame of a chart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, HEIGHT = 460, 270
LEFT, TOP, BOTTOM = 46, 30, 40
NUM_COLOURS = 6  # of the palette in page.css; later series repeat them dashed


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """An element. ``class_`` is class, ``stroke_width`` is stroke-width; text and attributes are escaped."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    return Markup(f"<{' '.join(parts)}>") + Markup("").join(children) + Markup(f"</{name}>")


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from ``low`` to ``high`` drawn from ``start`` to ``stop``."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Where a value is drawn."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.stop - self.start), 2)


def ticks(low: float, high: float, count: int = 5, *, whole: bool = False) -> list[float]:
    """About ``count`` round values (1, 2, 2.5 or 5 times a power of ten) within the range; ``whole``: no fractions."""
    step = 10.0 ** math.floor(math.log10((high - low) / count))
    step *= next((k for k in (1, 2, 2.5, 5) if (high - low) / (step * k) <= count), 10)
    step = max(1, math.ceil(step)) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis from 10^low to 10^high, as powers of ten: round values, then decades."""
    if high - low < 0.7:
        return [math.log10(value) for value in ticks(10.0**low, 10.0**high, 4) if value > 0]
    factors, step = ((1, 2, 5), 1) if high - low < 2 else ((1,), math.ceil((high - low) / 6))
    decades = range(math.floor(low / step) * step, math.ceil(high) + 1, step)
    places = [decade + math.log10(factor) for decade in decades for factor in factors]
    return [value for value in places if low <= value <= high]


def limits(values: list[float], *, floor: float | None = None, room: float = 0.04) -> tuple[float, float]:
    """A range that holds the values with a little room, never empty."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    low = low if floor is None else min(low, floor)
    span = max(high - low, 1e-9 + 1e-6 * max(abs(low), abs(high)))
    return low - (span * room if floor is None else 0), high + span * room


def number(value: float) -> str:
    """Three significant digits, without the noise of scientific notation where it can be helped."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:.1e}"


def percent(value: float) -> str:
    """A share in per cent; decimals, three at most, only where rounding would hide that it is not 0 or 100."""
    digits = next((digits for digits in range(4) if 0 < round(100 * value, digits) < 100), 1 if 0 < value < 1 else 0)
    return f"{100 * value:.{digits}f} %"


def series_class(index: int) -> str:
    """The colour of a series, and a dash from the seventh on."""
    return f"s{index % NUM_COLOURS}" + (f" dash{min(index // NUM_COLOURS, 2)}" if index >= NUM_COLOURS else "")


def frame(
    x: Axis,
    y: Axis,
    x_name: str,
    y_name: str,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
    *,
    whole: bool = False,
    log: bool = False,
) -> Markup:
    """Hairlines at round values, their labels, and the names of both axes; ``log``: both are powers of ten."""
    x_ticks = log_ticks(x.low, x.high) if log else ticks(x.low, x.high, 6, whole=whole)
    parts = []
    for value in log_ticks(y.low, y.high) if log else ticks(y.low, y.high, 5):
        parts.append(tag("line", class_="grid", x1=x.start, x2=x.stop, y1=y(value), y2=y(value)))
        parts.append(tag("text", y_text(value), class_="tick", x=x.start - 8, y=y(value) + 4, text_anchor="end"))
    for value in x_ticks:
        parts.append(tag("line", class_="grid", x1=x(value), x2=x(value), y1=y.start, y2=y.start + 4))
        parts.append(tag("text", x_text(value), class_="tick", x=x(value), y=y.start + 17, text_anchor="middle"))
    parts.append(tag("line", class_="axis", x1=x.start, x2=x.stop, y1=y.start, y2=y.start))
    parts.append(tag("text", y_name, class_="name", x=0, y=14))
    parts.append(tag("text", x_name, class_="name", x=x.stop, y=y.start + BOTTOM - 6, text_anchor="end"))
    return Markup("").join(parts)
