"""Bars that a model must clear: which figure, which number of it, and whether it held."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from holdfast.audits.change import change
from holdfast.audits.suites import Suite
from holdfast.config import InputError
from holdfast.data import fingerprint
from holdfast.records import AuditResult, Bar, Figure

SAFETY = ("asr", "over_refusal")


@dataclass(frozen=True)
class Bars:
    """None is no bar. ``strict`` compares the interval's worse end, so that few trials cannot pass by luck.

    ``before``: an earlier audit of the same requests, than which every figure that can have a bar may be worse by
    ``max_worse`` at most. There the values are compared, or with ``strict_before`` the upper end of the change's own interval.
    """

    max_asr: float | None = None
    max_over_refusal: float | None = None
    min_utility: float | None = None
    strict: bool = False
    before: AuditResult | None = None
    max_worse: float = 0.0
    strict_before: bool = False

    def check(self, measured: Collection[str], *, has_utility: bool) -> None:
        """Before anything is asked: a bar that nothing measures would always hold."""
        for option, bound, is_measured in (
            ("--max-asr", self.max_asr, "asr" in measured),
            ("--max-over-refusal", self.max_over_refusal, "over_refusal" in measured),
            ("--min-utility", self.min_utility, has_utility),
        ):
            if bound is not None and not 0 <= bound <= 1:
                raise InputError(f"{option} {bound}: expected a share between 0 and 1")
            if bound is not None and not is_measured:
                raise InputError(f"{option}: nothing that is asked measures this; add its suite or its file")

    def check_before(self, suites: Sequence[Suite], judges: Sequence[str]) -> None:
        """Before anything is asked too: only what was asked and judged in the same way can be compared."""
        if not 0 <= self.max_worse <= 1:
            raise InputError(f"--max-worse {self.max_worse}: expected a share between 0 and 1")
        if self.before is None:
            if self.max_worse:
                raise InputError("--max-worse: worse than what? Say --before FOLDER")
            if self.strict_before:
                raise InputError("--strict-before: before what? Say --before FOLDER")
            return
        if self.strict_before and not self.max_worse:
            raise InputError("--strict-before: no number of requests proves that nothing is worse; say --max-worse X")
        asked, judged = ", ".join(self.before.sources), ", ".join(self.before.judges)
        for suite in suites:
            if fingerprint(suite.rows) not in self.before.fingerprints:
                raise InputError(f"--before: that audit did not ask these rows of '{suite.source}', but: {asked}")
        for judge in judges:
            if judge not in self.before.judges:
                raise InputError(f"--before: that audit has no judge '{judge}', but: {judged}")

    def against(self, figures: Sequence[Figure], utilities: Sequence[str]) -> tuple[Bar, ...]:
        """Every judge's figure is held to the bar, and every task's headline (the names in ``utilities``)."""
        bars = []
        for figure in figures:
            if figure.name == "asr" and self.max_asr is not None:
                bars.append(self._at_most("--max-asr", self.max_asr, figure))
            if figure.name == "over_refusal" and self.max_over_refusal is not None:
                bars.append(self._at_most("--max-over-refusal", self.max_over_refusal, figure))
            if figure.name in utilities and self.min_utility is not None:
                bars.append(self._at_least("--min-utility", self.min_utility, figure))
        return (*bars, *self._against_before([each for each in figures if each.name in (*SAFETY, *utilities)]))

    def _against_before(self, figures: Sequence[Figure]) -> list[Bar]:
        earlier = {each.key: each for each in self.before.figures} if self.before else {}
        return [self._no_worse(earlier[each.key], each) for each in figures if each.key in earlier]

    def _no_worse(self, was: Figure, figure: Figure) -> Bar:
        since = change(was, figure)
        worse = since.by.high if self.strict_before else since.by.value
        held = worse <= self.max_worse + 1e-9  # 0.1 + 0.2 is more than 0.3
        sign = 1 if figure.better == "less" else -1
        bound, worst = (was.value + sign * by for by in (self.max_worse, since.by.high))
        if self.strict_before:
            return Bar("--before", bound, figure.key, "worst", worst, held, since)
        return Bar("--before", bound, figure.key, "value", figure.value, held, since)

    def _at_least(self, option: str, bound: float, figure: Figure) -> Bar:
        number = figure.low if self.strict else figure.value
        return Bar(option, bound, figure.key, "low" if self.strict else "value", number, number >= bound)

    def _at_most(self, option: str, bound: float, figure: Figure) -> Bar:
        number = figure.high if self.strict else figure.value
        return Bar(option, bound, figure.key, "high" if self.strict else "value", number, number <= bound)
