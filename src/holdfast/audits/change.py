"""Is a figure worse than in an earlier audit of the same rows, and beyond chance? In pairs wherever both kept their scores."""

from __future__ import annotations

from dataclasses import replace

from holdfast.config import InputError
from holdfast.records import Change, Figure
from holdfast.records.audit import Worse
from holdfast.stats import newcombe, paired_difference

LEVEL = 0.05
"""Below this p-value a difference is beyond chance."""


def change(before: Figure, now: Figure) -> Change:
    """Both figures are of the same rows, in the same order: whoever calls has seen to that."""
    first, second = (now, before) if now.better == "less" else (before, now)
    value = first.value - second.value  # above 0 is worse
    ours, theirs = _scores(first), _scores(second)
    if not ours or len(ours) != len(theirs):
        by = newcombe(first.estimate, second.estimate)
        return Change(by, _said(value, beyond_chance=by.low > 0))
    paired = paired_difference(theirs, ours)
    by = replace(paired.by, value=value)  # of the figures as they stand: scores are kept with six digits
    return Change(by, _said(value, beyond_chance=paired.p < LEVEL), paired.p, paired.num_up, paired.num_down)


def _scores(figure: Figure) -> list[float]:
    try:
        return [float(score) for score in figure.scores.split()]
    except ValueError:
        raise InputError(f"--before: the scores of {figure.key} are not numbers; audit that model again") from None


def _said(by: float, *, beyond_chance: bool) -> Worse:
    if by <= 0:
        return "not worse"
    return "worse beyond chance" if beyond_chance else "worse, within chance"
