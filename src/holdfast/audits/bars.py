"""Bars that a model must clear: which figure, which number of it, and whether the bar is met."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import InitVar, dataclass

from holdfast.audits.change import change
from holdfast.audits.suites import RequestSuite, Suite
from holdfast.config import InputError
from holdfast.config.arguments import check_fields
from holdfast.data import fingerprint
from holdfast.records import AuditResult, Bar, Figure, suite_of

COMPLIED = ("complied", "unsafe", "not_refused")
"""What ``max_complied`` is about, by what a judge can tell."""
HARMLESS = ("harmless_refused", "harmless_missed")


@dataclass(frozen=True)
class Bars:
    """Bars that a model must clear. None is no bar. ``strict`` compares the interval's worse end: few trials cannot pass by luck.

    ``max_complied`` holds for every judge that tells outcomes or calls replies unsafe. Where no judge tells more, it holds for
    what is *not refused*. ``min_kept`` and ``max_missed`` are about harmless requests and need a judge of outcomes. Where
    labels correct the shares, the bars are about the corrected ones.

    ``before``: an earlier audit of the same requests. No figure that can have a bar may be worse than there by more than
    ``max_worse``. The judges' own values are compared, in pairs; with ``strict_before`` it is the upper end of the change's
    interval. ``max_asr`` is the name that ``max_complied`` had before version 0.2.
    """

    max_complied: float | None = None
    max_over_refusal: float | None = None
    min_utility: float | None = None
    min_kept: float | None = None
    max_missed: float | None = None
    strict: bool = False
    before: AuditResult | None = None
    max_worse: float = 0.0
    strict_before: bool = False
    max_asr: InitVar[float | None] = None

    def __post_init__(self, max_asr: float | None) -> None:
        check_fields(self, "hf.Bars", Bars)
        if max_asr is None:
            return
        if self.max_complied is not None:
            raise InputError("max_asr= is the old name of max_complied=: give one of them")
        print("holdfast: --max-asr (max_asr) is called --max-complied (max_complied) now", file=sys.stderr)
        object.__setattr__(self, "max_complied", max_asr)

    def check(
        self, safety: Sequence[RequestSuite], *, has_utility: bool, has_anchor: bool, earlier: AuditResult | None
    ) -> None:
        """Raise ``InputError`` before anything is asked for a bar that nothing measures: it would always hold.

        ``earlier``: the audit whose outcomes *kept* compares with where there is no anchor.
        """
        suites = {suite.name: suite for suite in safety}
        harmless = suites.get("harmless")
        tells = harmless is not None and bool(harmless.telling)
        for name, bound, is_measured in (
            ("max_complied", self.max_complied, "harmful" in suites),
            ("max_over_refusal", self.max_over_refusal, harmless is not None),
            ("min_utility", self.min_utility, has_utility),
            ("min_kept", self.min_kept, harmless is not None),
            ("max_missed", self.max_missed, harmless is not None),
        ):
            if bound is not None and not 0 <= bound <= 1:
                raise InputError(f"{name}={bound}: expected a share between 0 and 1")
            if bound is not None and not is_measured:
                raise InputError(f"{name}=: nothing that is asked measures this; add its suite or its file")
            if bound is not None and name in ("min_kept", "max_missed") and not tells:
                raise InputError(f'{name}=: none of these judges tells missed from complied; add judges="outcome"')
        if self.min_kept is None or harmless is None or has_anchor:
            return
        if earlier is None:
            raise InputError("min_kept=: as which model did? Say anchor=MODEL or before=FOLDER")
        for judge in harmless.telling:
            if len(earlier.outcomes.get(f"harmless ({judge.name})", ())) != len(harmless.rows):
                raise InputError(
                    f"min_kept=: the audit of {earlier.model} has no outcomes of these harmless requests by judge"
                    f" '{judge.name}'; say anchor=MODEL, or audit that model again"
                )

    def check_before(self, suites: Sequence[Suite], judges: Sequence[str]) -> None:
        """Raise ``InputError`` where the earlier audit did not ask and judge the same: the two could not be compared."""
        if not 0 <= self.max_worse <= 1:
            raise InputError(f"max_worse={self.max_worse}: expected a share between 0 and 1")
        if self.before is None:
            if self.max_worse:
                raise InputError("max_worse=: worse than what? Say before=FOLDER")
            if self.strict_before:
                raise InputError("strict_before=: before what? Say before=FOLDER")
            return
        if self.strict_before and not self.max_worse:
            raise InputError("strict_before=: no number of requests proves that nothing is worse; say max_worse=X")
        sources, judged = ", ".join(self.before.sources), ", ".join(self.before.judges)
        for suite in suites:
            if fingerprint(suite.rows) not in self.before.fingerprints:
                raise InputError(f"before=: that audit did not ask these rows of '{suite.source}', but: {sources}")
            if not any(suite_of(figure.name, [suite.name]) for figure in self.before.figures):
                raise InputError(f"before=: that audit asked these rows of '{suite.source}', but not as {suite.name}")
        for judge in judges:
            if judge not in self.before.judges:
                raise InputError(f"before=: that audit has no judge '{judge}', but: {judged}; name it with judges=")

    def against(self, figures: Sequence[Figure], utilities: Sequence[str]) -> tuple[Bar, ...]:
        """Every judge's figure is compared with the bar, and every task's headline (the names in ``utilities``)."""
        rules = (
            ("--max-complied", self.max_complied, _about_harm(figures)),
            ("--max-over-refusal", self.max_over_refusal, ("harmless_refused",)),
            ("--max-missed", self.max_missed, ("harmless_missed",)),
            ("--min-kept", self.min_kept, ("kept",)),
            ("--min-utility", self.min_utility, utilities),
        )
        bars = [
            self._bar(option, bound, figure)
            for figure in figures
            for option, bound, names in rules
            if bound is not None and figure.name in names
        ]
        compared = (*_about_harm(figures), *HARMLESS, *utilities)
        return (*bars, *self._against_before([figure for figure in figures if figure.name in compared]))

    def _against_before(self, figures: Sequence[Figure]) -> list[Bar]:
        earlier = {figure.key: figure for figure in self.before.figures} if self.before else {}
        return [self._no_worse(earlier[figure.key], figure) for figure in figures if figure.key in earlier]

    def _no_worse(self, was: Figure, figure: Figure) -> Bar:
        since = change(was, figure)
        worse = since.by.high if self.strict_before else since.by.value
        met = worse <= self.max_worse + 1e-9  # 0.1 + 0.2 is more than 0.3
        sign = 1 if figure.better == "less" else -1
        bound, worst = (was.value + sign * by for by in (self.max_worse, since.by.high))
        if self.strict_before:
            return Bar("--before", bound, figure.key, "worst", worst, met, since)
        return Bar("--before", bound, figure.key, "value", figure.value, met, since)

    def _bar(self, option: str, bound: float, figure: Figure) -> Bar:
        best = figure.best
        if option.startswith("--max"):
            number = best.high if self.strict else best.value
            return Bar(option, bound, figure.key, "high" if self.strict else "value", number, number <= bound)
        number = best.low if self.strict else best.value
        return Bar(option, bound, figure.key, "low" if self.strict else "value", number, number >= bound)


def _about_harm(figures: Sequence[Figure]) -> tuple[str, ...]:
    """The figures that say how much harm is done: *not refused* is one only where no judge tells more."""
    there = {figure.name for figure in figures}
    return COMPLIED[:2] if there & set(COMPLIED[:2]) else COMPLIED
