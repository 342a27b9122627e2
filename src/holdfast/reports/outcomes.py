"""What replies did with their requests: refused, missed, complied. A bar in three colours, and the numbers in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from holdfast.records import OUTCOMES
from holdfast.reports.pooling import Matrix
from holdfast.reports.svg import Axis, percent, tag
from holdfast.reports.text import shown

WORDS: tuple[str, ...] = (*OUTCOMES, "not judged")
MAX_LINES = 400
ACROSS = Axis(0.0, 1.0, 0, 240)


@dataclass(frozen=True, slots=True)
class OutcomeLine:
    """The replies to one group of requests."""

    name: str
    shares: tuple[str, ...]  # in the order of WORDS
    num: int
    picture: Markup


def audit_outcomes(outcomes: object) -> list[OutcomeLine]:
    """The outcomes of every group and judge of an audit; an audit of an older version has none."""
    groups = outcomes if isinstance(outcomes, dict) else {}
    lines = [_line(shown(name, 80), replies) for name, replies in list(groups.items())[:MAX_LINES]]
    return [line for line in lines if line is not None]


def matrix_outcomes(matrix: Matrix) -> list[OutcomeLine]:
    """The outcomes of every defence under every attack, seeds together. Cells of an older version kept hits only: no line."""
    lines = []
    for (defence, attack), pooled in sorted(matrix.pooled.items()):
        groups: dict[str, list[object]] = {}
        for cell in pooled.done:
            for name, outcomes in cell.outcomes.items():
                groups.setdefault(name, []).extend(outcomes)
        for name, replies in groups.items():
            group, _, judge = shown(name, 80).partition(":")
            title = f"{group} ({judge})" if judge else group
            lines.append(_line(f"{shown(defence, 80)} under {shown(attack, 80)}: {title}", replies))
    return [line for line in lines if line is not None][:MAX_LINES]


def _line(name: str, replies: object) -> OutcomeLine | None:
    """None for anything but a list of outcomes, where null stands for a reply that could not be judged."""
    if not isinstance(replies, Sequence) or isinstance(replies, str) or not replies:
        return None
    if not all(reply is None or reply in OUTCOMES for reply in replies) or all(reply is None for reply in replies):
        return None
    counts = Counter("not judged" if reply is None else str(reply) for reply in replies)
    shares = tuple(percent(counts[word] / len(replies)) for word in WORDS)
    return OutcomeLine(name, shares, len(replies), _picture(counts, len(replies)))


def _picture(counts: Mapping[str, int], num: int) -> Markup:
    """One bar from 0 to 100 %. What could not be judged stays empty; the table beside it has all of it in words."""
    parts, start = [], 0.0
    for word in OUTCOMES:
        end = start + counts[word] / num
        if end > start:
            parts.append(
                tag("rect", class_=f"bar of-{word}", x=ACROSS(start), y=4, width=ACROSS(end - start), height=12)
            )
        start = end
    empty = tag("rect", class_="empty", x=0, y=4, width=ACROSS(1), height=12)
    return tag("svg", empty, *parts, viewBox="0 0 240 20", class_="outcomes", aria_hidden="true")
