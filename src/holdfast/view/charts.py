"""Charts of the runs that were chosen: every figure that their logs have, the runs laid over each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from holdfast.reports.lines import MAX_POINTS, LineChart, Series, line_chart
from holdfast.reports.svg import number, percent
from holdfast.reports.training import role_colour
from holdfast.view.logs import Key, Log

MAX_CHARTS = 32
MAX_LINES = 12
GIB = 2**30
NUM_OPEN = 6  # charts that are not folded away
GROUPS = {"roles": "role", "streams": "stream"}
NAMES = {
    "nll": "NLL (nats per token)",
    "kl": "KL to the anchor (nats)",
    "kl_rev": "KL from the anchor (nats)",
    "gradient_share": "gradient share",
    "w": "weight",
    "pa_active": "share of tokens on which model and anchor differ",
    "pa_minus_log2": "pa above its idle value (nats per token)",
    "lambda_early": "lambda of early tokens",
    "lambda_late": "lambda of late tokens",
    "grad_norm": "norm of the gradient",
    "learning_rate": "learning rate",
    "tokens_per_second": "tokens per second",
    "memory_bytes": "memory (GiB)",
}
FIRST: list[Key] = [
    ("loss",),
    ("roles", "nll"),
    ("streams", "loss"),
    ("streams", "kl"),
    ("streams", "kl_rev"),
    ("streams", "lambda_early"),
    ("streams", "lambda_late"),
    ("reward",),
    ("kl",),
    ("roles", "gradient_share"),
    ("streams", "nll"),
    ("tokens_per_second",),
]
LEFT_OUT = {"epoch", "tokens"}


@dataclass(frozen=True)
class RunLogs:
    """A run that was chosen: its name, its figures and its clock."""

    name: str
    steps: Log
    timing: Log


class _Line(NamedTuple):
    """One column of one log."""

    label: str  # a role or a stream, or nothing
    run: int
    log: Log
    key: Key


def run_charts(runs: Sequence[RunLogs]) -> list[tuple[str, LineChart]]:
    """Charts with their titles.

    Of one run, a figure's roles or streams share a chart. Of several runs, each role and stream has a chart with a line per run.
    """
    several = len(runs) > 1
    kinds: dict[tuple[Key, str], list[_Line]] = {}
    for index, run in enumerate(runs):
        for log in (run.steps, run.timing):
            for key, column in log.columns.items():
                kind, label = ((key[0], key[2]), key[1]) if len(key) == 3 else (key, "")
                if kind[-1] not in LEFT_OUT and any(value is not None for value in column):
                    kinds.setdefault((kind, label if several else ""), []).append(_Line(label, index, log, key))
    order = {kind: index for index, kind in enumerate(FIRST)}
    wanted = sorted(kinds, key=lambda one: (order.get(one[0], len(FIRST)), one[0]))[:MAX_CHARTS]
    names = [run.name for run in runs]
    return [
        (title, _chart(f"c{index}", title, kind[0], kinds[kind][:MAX_LINES], names))
        for index, kind in enumerate(wanted)
        for title in [_title(*kind)]
    ]


def _chart(key: str, title: str, kind: Key, parts: Sequence[_Line], names: Sequence[str]) -> LineChart:
    steps, columns, width = gridded([(part.log.steps, part.log.columns[part.key]) for part in parts])
    several = len(names) > 1
    if kind[-1] == "memory_bytes":
        columns = [[None if value is None else value / GIB for value in column] for column in columns]
    lines = [
        Series(_short(names[part.run]), part.run, column)
        if several
        else Series(part.label or _short(names[0]), role_colour(part.label, index), column)
        for index, (part, column) in enumerate(zip(parts, columns, strict=True))
    ]
    is_share = kind[-1] == "gradient_share"
    y_name = NAMES.get(kind[-1], kind[-1]) + (f", means of {width:g} steps" if width > 1 else "")
    known = [value for column in columns for value in column if value is not None]
    return line_chart(
        key,
        title,
        steps,
        lines,
        x_name="step",
        y_name=y_name,
        y_limits=(0.0, 1.04) if is_share else _limits(known),
        y_text=percent if is_share else number,
    )


def gridded(
    lines: Sequence[tuple[Sequence[float], Sequence[float | None]]],
) -> tuple[list[float], list[list[float | None]], float]:
    """Lines on steps of their own -> the same steps for all, at most about ``MAX_POINTS``: means over equal stretches.

    A stretch is as long as the widest distance between two rows of a log, so that no line has gaps that its log has not.
    Returns the ends of the stretches, the means, and how many steps a stretch has.
    """
    low, high = min(steps[0] for steps, _ in lines), max(steps[-1] for steps, _ in lines)
    gaps = [median(b - a for a, b in pairwise(steps)) for steps, _ in lines if len(steps) > 1]
    width = max(1.0, *gaps, math.ceil((high - low) / MAX_POINTS)) if gaps else 1.0
    sums: list[dict[int, list[float]]] = []
    for steps, values in lines:
        by_cell: dict[int, list[float]] = {}
        for step, value in zip(steps, values, strict=True):
            if value is not None:
                by_cell.setdefault(math.ceil(step / width), []).append(value)
        sums.append(by_cell)
    cells = sorted({cell for line in sums for cell in line})
    means = [[math.fsum(line[cell]) / len(line[cell]) if cell in line else None for cell in cells] for line in sums]
    return [min(cell * width, high) for cell in cells], means, width


def _limits(known: Sequence[float]) -> tuple[float, float] | None:
    """The range of an axis with room at both ends. None where all figures are positive: from zero, as in the report."""
    if min(known) >= 0 and max(known) < 1e300:
        return None
    low, high = max(min(known), -1e300), min(max(known), 1e300)
    room = 0.04 * (high - low) or 1.0
    return low - room, high + room


def _title(kind: Key, label: str) -> str:
    words = NAMES.get(kind[-1], kind[-1]).partition(" (")[0]
    words = words[:1].upper() + words[1:]
    group = GROUPS.get(kind[0], kind[0])
    return words if len(kind) == 1 else f"{words}, {group} {label}" if label else f"{words} by {group}"


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"…{name[-39:]}"
