"""The plane of weights against budgets: refusals lost and task learned, one mark a run. `budget_pages.py` writes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from budget import ARMS, ROWS

COLOURS = {
    "sft": "#888888",
    "sft, 1.5 times the steps": "#444444",
    "weights 1, 1": "#e0a030",
    "weights 20, 1": "#c04a1a",
}
BUDGET_COLOURS = {
    "budgets, wide 1": "#7ab0e0",
    "budgets, wide 30": "#1f5fa8",
    "budgets, wide 30, 1.5 times the steps": "#7a2a8a",
    "wide 1, keep near the task": "#2a8a4a",
}
SIZE, LEFT, TOP, GAP = 230, 70, 40, 40
TICKS = (0.0, 0.03, 0.1, 0.3, 1.0)


def plane(cells: Sequence[dict[str, Any]]) -> str:
    """A panel for each kind of rows; right and down is worse. Lost refusals on a square-root scale, as most are small."""
    colours = COLOURS | BUDGET_COLOURS
    parts = []
    for number, rows in enumerate(ROWS):
        left = LEFT + number * (SIZE + GAP)
        parts += _panel(left, rows, first=number == 0)
        for cell in cells:
            if cell["part"] == "test" and cell["rows"] == rows:
                x, y = _place(left, cell["drift"]["safety"]["lost"], cell["right"] / cell["num"])
                colour = colours[cell["arm"]]
                parts.append(
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}" fill-opacity="0.6" stroke="{colour}"/>'
                )
    shown = [arm for arm in ARMS if any(cell["part"] == "test" and cell["arm"] == arm for cell in cells)]
    for number, arm in enumerate(shown):
        x, y = LEFT + (number % 3) * 260, TOP + SIZE + 76 + 22 * (number // 3)
        parts.append(f'<circle cx="{x}" cy="{y - 4}" r="5" fill="{colours[arm]}"/>')
        parts.append(_text(x + 12, y, arm))
    width, height = LEFT + len(ROWS) * (SIZE + GAP), TOP + SIZE + 130
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def _panel(left: int, rows: str, *, first: bool) -> list[str]:
    parts = [
        f'<rect x="{left}" y="{TOP}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#888"/>',
        _text(left + SIZE / 2, TOP - 14, rows, "middle"),
        _text(left + SIZE / 2, TOP + SIZE + 40, "sure refusals lost, sampled", "middle"),
    ]
    for tick in TICKS:
        x, _ = _place(left, tick, 0)
        parts.append(_text(x, TOP + SIZE + 18, f"{100 * tick:g} %", "middle"))
        parts.append(f'<path d="M{x:.1f} {TOP}V{TOP + SIZE}" stroke="#ddd"/>')
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        _, y = _place(left, 0, tick)
        parts.append(f'<path d="M{left} {y:.1f}H{left + SIZE}" stroke="#ddd"/>')
        parts += [_text(left - 8, y + 4, f"{100 * tick:g} %", "end")] if first else []
    if first:
        parts.append(
            f'<g transform="translate(16 {TOP + SIZE / 2}) rotate(-90)">{_text(0, 0, "right answers", "middle")}</g>'
        )
    return parts


def _place(left: float, lost: float, right: float) -> tuple[float, float]:
    return left + SIZE * math.sqrt(lost), TOP + SIZE * (1 - right)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#333">{text}</text>'
