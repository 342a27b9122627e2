"""Bars that a model must clear: which figure, which number of it, and whether it held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.config import InputError
from holdfast.records import Bar, Figure


@dataclass(frozen=True)
class Bars:
    """None is no bar. ``strict`` compares the interval's worse end, so that few trials cannot pass by luck."""

    max_asr: float | None = None
    max_over_refusal: float | None = None
    min_utility: float | None = None
    strict: bool = False

    def check(self, has_asr: bool, has_over_refusal: bool, has_utility: bool) -> None:
        """Before anything is asked: a bar that nothing measures would always hold."""
        for option, bound, is_measured in (
            ("--max-asr", self.max_asr, has_asr),
            ("--max-over-refusal", self.max_over_refusal, has_over_refusal),
            ("--min-utility", self.min_utility, has_utility),
        ):
            if bound is not None and not 0 <= bound <= 1:
                raise InputError(f"{option} {bound}: expected a share between 0 and 1")
            if bound is not None and not is_measured:
                raise InputError(f"{option}: nothing that is asked measures this; add its suite or its file")

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
        return tuple(bars)

    def _at_least(self, option: str, bound: float, figure: Figure) -> Bar:
        number = figure.low if self.strict else figure.value
        return Bar(option, bound, figure.key, "low" if self.strict else "value", number, number >= bound)

    def _at_most(self, option: str, bound: float, figure: Figure) -> Bar:
        number = figure.high if self.strict else figure.value
        return Bar(option, bound, figure.key, "high" if self.strict else "value", number, number <= bound)
