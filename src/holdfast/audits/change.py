"""Is a figure worse than in an earlier audit of the same rows, and beyond chance? In pairs wherever both kept their scores."""

from __future__ import annotations

from dataclasses import replace

from holdfast.config import InputError
from holdfast.records import AuditResult, Change, Figure
from holdfast.records.audit import LEVEL, Worse
from holdfast.records.audit_words import NOT_CORRECTED
from holdfast.stats import Estimate, newcombe, paired_difference


class Changes(dict[str, Change]):
    """The change of every figure that two audits share and that has a better side; printed, a line for each.

    Printed too: what the later audit kept of the outcomes of the earlier, and whether labels correct the shares.
    """

    def __init__(self, before: AuditResult, after: AuditResult) -> None:
        self.before, self.after = before, after
        known = {figure.key: figure for figure in before.figures}
        self._figures = {
            figure.key: (known[figure.key], figure)
            for figure in after.figures
            if figure.key in known and figure.better != "neither"
        }
        super().__init__({key: change(*figures) for key, figures in self._figures.items()})

    def __repr__(self) -> str:
        width = max(map(len, self), default=0)
        lines = [f"  {key:{width}}  {_line(*self._figures[key], shift)}" for key, shift in self.items()]
        kept = [figure for figure in self.after.figures if figure.name == "kept" and figure.key not in self]
        lines += [f"  {figure.key:{width}}  {figure.estimate:.1%}: {figure.meaning}" for figure in kept]
        judged = any(figure.can_err for _, figure in self._figures.values())
        lines += [f"  {NOT_CORRECTED}"] if judged else []
        return "\n".join([f"{self.after.model} against {self.before.model}", *lines])


def _line(before: Figure, now: Figure, shift: Change) -> str:
    """Both values, their difference with its interval, and what to make of it."""
    is_share = now.estimate.hits is not None
    sign = 1 if now.better == "less" else -1  # the direction that is worse
    scale, spec, unit = (100, "+z.1f", " points") if is_share else (1, "+z.3g", "")
    low, high = sorted(sign * scale * end for end in (shift.by.low, shift.by.high))
    difference = Estimate(sign * scale * shift.by.value, low, high)
    number = ".1%" if is_share else ".3g"
    p = "not in pairs" if shift.p is None else f"p {shift.p:.2g}"
    values = f"{before.value:{number}} -> {now.value:{number}}"
    return f"{values:16}  {difference:{spec}}{unit}, {p}: {_verdict(shift)}"


def _verdict(shift: Change) -> str:
    """As ``Change.said``, with words for improvements too."""
    if shift.by.value > 0:
        return shift.said
    if shift.by.value == 0:
        return "no change"
    beyond_chance = shift.by.high < 0 if shift.p is None else shift.p < LEVEL
    return "better beyond chance" if beyond_chance else "better, within chance"


def change(before: Figure, now: Figure) -> Change:
    """How much worse ``now`` is than ``before``. The caller sees to it that both are of the same rows, in the same order."""
    first, second = (now, before) if now.better == "less" else (before, now)
    value = first.value - second.value  # above 0 is worse
    ours, theirs = _scores(first), _scores(second)
    if not ours or len(ours) != len(theirs):
        by = newcombe(first.estimate, second.estimate)
        return Change(by, _worse(value, beyond_chance=by.low > 0))
    paired = paired_difference(theirs, ours)
    by = replace(paired.by, value=value)  # of the figures as they stand: scores are kept with six digits
    return Change(by, _worse(value, beyond_chance=paired.p < LEVEL), paired.p, paired.num_up, paired.num_down)


def _scores(figure: Figure) -> tuple[float, ...]:
    try:
        return figure.by_row
    except ValueError:
        raise InputError(f"before=: the scores of {figure.key} are not numbers; audit that model again") from None


def _worse(by: float, *, beyond_chance: bool) -> Worse:
    if by <= 0:
        return "not worse"
    return "worse beyond chance" if beyond_chance else "worse, within chance"
