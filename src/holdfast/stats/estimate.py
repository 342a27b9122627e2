"""A value with its interval, and what stands in its place when the data cannot say it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval.

    An end is infinite where nothing is known on that side, so a value without any interval has two infinite ends.
    ``n`` counts the cases behind the value (requests, rows, seeds); ``hits`` says of a share how many of them counted.
    ``method`` names how the interval was made.

    ``format(estimate, ".1%")`` writes the value and both ends in that format; without one, with three decimals.
    """

    value: float
    low: float = -math.inf
    high: float = math.inf
    n: int = 1
    method: str = ""
    hits: int | None = None

    @property
    def has_interval(self) -> bool:
        """Whether at least one end is finite."""
        return math.isfinite(self.low) or math.isfinite(self.high)

    def above(self, bar: float) -> bool:
        """Whether the whole interval is above ``bar``; without an interval, whether the value is."""
        return (self.low if self.has_interval else self.value) > bar

    def below(self, bar: float) -> bool:
        """Whether the whole interval is below ``bar``; without an interval, whether the value is."""
        return (self.high if self.has_interval else self.value) < bar

    def contains(self, value: float) -> bool:
        """Whether there is an interval and ``value`` lies in it."""
        return self.has_interval and self.low <= value <= self.high

    def to_json(self, *, value: str = "value", n: str = "n") -> dict[str, Any]:
        """Its parts, flat, for a file; an infinite end is null. ``value`` and ``n`` may be kept under other names."""
        low, high = finite_or_none(self.low), finite_or_none(self.high)
        parts = {value: self.value, "low": low, "high": high, n: self.n, "method": self.method}
        return parts if self.hits is None else {**parts, "hits": self.hits}

    @staticmethod
    def from_json(kept: Mapping[str, Any], *, value: str = "value", n: str = "n") -> Estimate:
        """The inverse of ``to_json``. What else ``kept`` holds is left alone; older files kept no method."""
        low, high = kept["low"], kept["high"]
        return Estimate(
            kept[value],
            -math.inf if low is None else low,
            math.inf if high is None else high,
            kept.get(n, 1),
            kept.get("method", ""),
            kept.get("hits"),
        )

    def __format__(self, spec: str) -> str:
        spec = spec or ".3f"
        if not self.has_interval:
            return format(self.value, spec)
        low, high = ("unbounded" if math.isinf(end) else format(end, spec) for end in (self.low, self.high))
        return f"{format(self.value, spec)} [{low}, {high}]"

    def __str__(self) -> str:
        return format(self)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands where an estimate would, when the data cannot give one. ``why`` tells the reader the reason.

    Its ``value``, ``low`` and ``high`` are None. ``n`` is 0 for a share of no cases.
    """

    why: str
    n: int | None = None

    value: ClassVar[None] = None
    low: ClassVar[None] = None
    high: ClassVar[None] = None
    hits: ClassVar[None] = None

    def to_json(self, *, value: str = "value", n: str = "n") -> dict[str, Any]:
        """Its parts for a file: those of an estimate, without numbers, and the reason."""
        return {value: None, "low": None, "high": None, n: self.n, "why": self.why}

    def __format__(self, spec: str) -> str:
        return self.why

    def __str__(self) -> str:
        return self.why


def finite_or_none(value: float | None) -> float | None:
    """For JSON, which has no infinity and no NaN: those become None."""
    return value if value is not None and math.isfinite(value) else None
