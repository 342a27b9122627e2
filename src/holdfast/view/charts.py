"""Charts of the runs that were chosen: every figure that their logs have, the runs laid over each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from holdfast.reports.lines import MAX_POINTS, LineChart, Series, line_chart
from holdfast.reports.svg import NUM_COLOURS, number, percent
from holdfast.reports.training import role_colour
from holdfast.view.logs import Key, Log

MAX_CHARTS = 32
MAX_LINES = 12
NUM_OPEN = 6  # charts that are not folded away
GROUPS = {"roles": "role", "streams": "stream"}
NAMES = {
    "nll": "NLL (nats per token)",
    "kl": "KL to the anchor (nats)",
    "kl_rev": "KL from the anchor (nats)",
    "gradient_share": "gradient share",
    "w": "weight",
    "grad_norm": "norm of the gradient",
    "learning_rate": "learning rate",
    "tokens_per_second": "tokens per second",
    "memory_bytes": "memory (bytes)",
}
FIRST: list[Key] = [
    ("loss",),
    ("roles", "nll"),
    ("streams", "loss"),
    ("streams", "kl"),
    ("streams", "kl_rev"),
    ("streams", "lambda"),
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


def run_charts(runs: Sequence[RunLogs]) -> list[tuple[str, LineChart]]:
    """One chart per figure with a title. Of one run, lines are its roles or streams; of several, each run has a colour."""
    kinds: dict[Key, dict[str, list[tuple[int, Log, Key]]]] = {}
    for place, run in enumerate(runs):
        for log in (run.steps, run.timing):
            for key in log.columns:
                kind, label = ((key[0], key[2]), key[1]) if len(key) == 3 else (key, "")
                if kind[-1] not in LEFT_OUT:
                    kinds.setdefault(kind, {}).setdefault(label, []).append((place, log, key))
    order = {kind: place for place, kind in enumerate(FIRST)}
    wanted = sorted(kinds, key=lambda kind: (order.get(kind, len(FIRST)), kind))[:MAX_CHARTS]
    charts = [(kind, _chart(place, kind, kinds[kind], [run.name for run in runs])) for place, kind in enumerate(wanted)]
    return [(_title(kind), chart) for kind, chart in charts if chart is not None]


def _chart(
    place: int, kind: Key, labels: dict[str, list[tuple[int, Log, Key]]], names: Sequence[str]
) -> LineChart | None:
    parts = [(label, run, log, key) for label, own in labels.items() for run, log, key in own]
    parts = [part for part in parts if any(value is not None for value in part[2].columns[part[3]])][:MAX_LINES]
    if not parts:
        return None
    steps, columns, width = gridded([(log.steps, log.columns[key]) for _, _, log, key in parts])
    several = len(names) > 1
    lines = [
        Series(_line_name(label, names[run], several), _colour(label, labels, run, index, several), column)
        for index, ((label, run, _, _), column) in enumerate(zip(parts, columns, strict=True))
    ]
    is_share = kind[-1] == "gradient_share"
    y_name = NAMES.get(kind[-1], kind[-1]) + (f", means of {width:g} steps" if width > 1 else "")
    known = [value for column in columns for value in column if value is not None]
    return line_chart(
        f"c{place}",
        _title(kind),
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
        own: dict[int, list[float]] = {}
        for step, value in zip(steps, values, strict=True):
            if value is not None:
                own.setdefault(math.ceil(step / width), []).append(value)
        sums.append(own)
    cells = sorted({cell for own in sums for cell in own})
    means = [[math.fsum(own[cell]) / len(own[cell]) if cell in own else None for cell in cells] for own in sums]
    return [min(cell * width, high) for cell in cells], means, width


def _limits(known: Sequence[float]) -> tuple[float, float] | None:
    """From zero where all figures are positive, as in the report; otherwise with room for those below."""
    if min(known) >= 0 and max(known) < 1e300:
        return None
    low, high = max(min(known), -1e300), min(max(known), 1e300)
    room = 0.04 * (high - low) or 1.0
    return low - room, high + room


def _title(kind: Key) -> str:
    words = NAMES.get(kind[-1], kind[-1]).partition(" (")[0]
    words = words[:1].upper() + words[1:]
    return f"{words} by {GROUPS.get(kind[0], kind[0])}" if len(kind) > 1 else words


def _colour(label: str, labels: Iterable[str], run: int, index: int, several: bool) -> int:
    """Of several runs each has a colour, and its roles or streams are dashed."""
    return run % NUM_COLOURS + NUM_COLOURS * list(labels).index(label) if several else role_colour(label, index)


def _line_name(label: str, run: str, several: bool) -> str:
    short = run if len(run) <= 40 else f"…{run[-39:]}"
    return f"{label} · {short}" if label and several else short if several else label or "run"
