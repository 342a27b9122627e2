"""An audit as a table: every figure with its interval drawn beside the bar it was compared with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from holdfast.records import AuditResult
from holdfast.records.audit_words import cautions, shares_lines
from holdfast.reports.outcomes import OutcomeLine, audit_outcomes
from holdfast.reports.reading import finite, objects_in
from holdfast.reports.svg import Axis, number, percent, tag
from holdfast.reports.text import shown

MAX_MEASURES = 200
SHARE = Axis(0.0, 1.0, 4, 196)
Share = tuple[float, float, float]
"""A share and the ends of its interval."""


@dataclass(frozen=True, slots=True)
class Line:
    """One measure."""

    name: str
    value: str
    interval: str = ""
    trials: str = ""
    meaning: str = ""
    corrected: str = ""  # by labels, with its interval
    picture: Markup | None = None
    bar: str = ""
    met: bool | None = None  # None: no bar was set


@dataclass(frozen=True, slots=True)
class AuditPart:
    """What an audit found, and whether it passed (None: no bar was set)."""

    about: str
    passed: bool | None
    lines: list[Line]
    notes: list[str]
    outcomes: list[OutcomeLine] = field(default_factory=list)
    headline: list[str] = field(default_factory=list)  # what became of each group of requests, and what to know of it

    @property
    def is_corrected(self) -> bool:
        """Whether labels corrected a share."""
        return any(line.corrected for line in self.lines)


def audit_part(audit: Mapping[str, Any]) -> AuditPart:
    """An audit's figures with their bars; what a damaged file lacks is left out."""
    figures = audit.get("figures")
    bars = objects_in(audit.get("bars"))
    lines = [
        _figure(key, figure, [bar for bar in bars if bar.get("figure") == key])
        for key, figure in list(figures.items() if isinstance(figures, dict) else ())[:MAX_MEASURES]
        if isinstance(figure, dict)
    ]
    about = shown(audit.get("model") or "", 200)
    about += f" against {shown(audit['anchor'], 200)}" if audit.get("anchor") else ""
    notes = [shown(note, 300) for note in _list(audit.get("notes"))]
    passed = all(_is_met(bar) for bar in bars) if bars else None
    return AuditPart(about, passed, lines, notes, audit_outcomes(audit.get("outcomes")), _headline(audit))


def _headline(audit: Mapping[str, Any]) -> list[str]:
    """The first lines of the command's own table; of a damaged file, which has none, what it says of its labels."""
    try:
        result = AuditResult.from_json(dict(audit))
        lines = [*shares_lines(result), *cautions(result)]
    except (KeyError, TypeError, ValueError, AttributeError):
        lines = _list(audit.get("labels"))
    return [shown(line, 400) for line in lines]


def _figure(key: str, figure: Mapping[str, Any], bars: list[dict[str, Any]]) -> Line:
    value, low, high = (finite(figure.get(name)) for name in ("value", "low", "high"))
    if value is None:
        return Line(shown(key, 80), _plain(figure.get("value")))
    share = _share(figure) if figure.get("better") != "neither" else None
    written = percent if share else number
    bounds = [(bar, bound) for bar in bars if (bound := finite(bar.get("bound"))) is not None]
    trials, unscored = finite(figure.get("trials")), finite(figure.get("unscored"))
    counted = "" if trials is None else f"{trials:,.0f}"
    return Line(
        name=shown(key, 80),
        value=written(value),
        interval="" if low is None or high is None else f"{written(low)} to {written(high)}",
        trials=counted + (f", {unscored:,.0f} unscored" if unscored else ""),
        meaning=shown(figure.get("meaning") or "", 200),
        corrected=_corrected(figure.get("corrected")),
        picture=_picture(_share(figure.get("corrected")) or share, [b for _, b in bounds]) if share else None,
        bar=", ".join(f"{shown(bar.get('option') or 'bar', 60)} {written(bound)}" for bar, bound in bounds),
        met=all(_is_met(bar) for bar, _ in bounds) if bounds else None,
    )


def _share(kept: object) -> Share | None:
    """Value and interval, if they are those of a share."""
    parts = [finite(kept.get(name)) for name in ("value", "low", "high")] if isinstance(kept, dict) else []
    value, low, high = parts or (None, None, None)
    if value is None or low is None or high is None or not all(0 <= part <= 1 for part in (value, low, high)):
        return None
    return value, low, high


def _corrected(kept: object) -> str:
    share = _share(kept)
    if share is None or not isinstance(kept, dict):
        return ""
    value, low, high = map(percent, share)
    return f"{value} ({low} to {high}): {shown(kept.get('method') or 'corrected', 80)}"


def _picture(share: Share, bounds: list[float]) -> Markup:
    """A mark with its interval from 0 to 100 %; a line across where a bar was set."""
    value, low, high = share
    return tag(
        "svg",
        tag("line", class_="axis", x1=SHARE(0), x2=SHARE(1), y1=12, y2=12),
        tag("line", class_="range", x1=SHARE(low), x2=SHARE(high), y1=12, y2=12),
        *(tag("line", class_="bound", x1=SHARE(b), x2=SHARE(b), y1=2, y2=22) for b in bounds if 0 <= b <= 1),
        tag("circle", class_="shape", cx=SHARE(value), cy=12, r=4.5),
        viewBox="0 0 200 24",
        class_="interval s0",
        aria_hidden="true",
    )


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _plain(value: object) -> str:
    known = finite(value)
    if known is not None:
        return number(known)
    return shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _is_met(bar: Mapping[str, Any]) -> bool:
    """Files from before version 0.2 call it ``held``."""
    return bar.get("met", bar.get("held")) is True
