"""What an audit of one model finds: named figures with intervals, what the judges agree on, and which bars held."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from holdfast.config import InputError
from holdfast.data.writing import atomic_text

Better = Literal["less", "more", "neither"]
Worse = Literal["worse beyond chance", "worse, within chance", "not worse"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A share or a mean with its 95 % interval. ``unscored`` of the trials had no answer, or none that could be decided:
    they are among the trials, and each counts against the model.
    """

    name: str
    value: float
    low: float
    high: float
    trials: int
    better: Better
    meaning: str
    judge: str = ""  # who decided; empty where nobody had to
    unscored: int = 0
    scores: str = ""  # of every trial in order, one space between: what a later audit of the same rows is paired with

    @property
    def key(self) -> str:
        """Its name in tables and files; no two figures of an audit have the same."""
        return f"{self.name} ({self.judge})" if self.judge else self.name


@dataclass(frozen=True, slots=True)
class Agreement:
    """Cohen's kappa of two judges on the same answers; None where both said the same of every one."""

    suite: str
    judges: tuple[str, str]
    agreed: float  # share of the answers
    kappa: float | None
    low: float | None
    high: float | None
    trials: int


@dataclass(frozen=True, slots=True)
class Change:
    """By how much a figure is worse than in an earlier audit, with the 95 % interval: above 0 is worse, whichever way it counts.

    ``p`` is two-sided, of a test in pairs. It and the numbers of trials are None where the two audits could not be paired.
    """

    by: float
    low: float
    high: float
    said: Worse
    p: float | None = None
    num_worse: int | None = None  # trials that score worse than before
    num_better: int | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar against one figure. ``compared`` says which number of the figure was taken.

    ``worst`` is what it was in an earlier audit, and the upper end of the change since then.
    """

    option: str
    bound: float
    figure: str
    compared: Literal["value", "low", "high", "worst"]
    number: float
    held: bool
    change: Change | None = None  # where the bound is an earlier audit's


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Everything that was measured on one model, and how."""

    model: str
    anchor: str | None
    judges: tuple[str, ...]
    figures: tuple[Figure, ...]
    agreements: tuple[Agreement, ...] = ()
    bars: tuple[Bar, ...] = ()
    kl_by_position: tuple[float, ...] = ()  # mean KL(model || anchor) at answer token 1, 2, ...
    num_missing: int = 0  # answers that never came, or came empty
    sources: tuple[str, ...] = ()  # what was asked
    fingerprints: tuple[str, ...] = ()  # of the rows of each source
    notes: tuple[str, ...] = ()  # what was not measured, and why
    settings: dict[str, Any] | None = None
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether every bar held."""
        return all(bar.held for bar in self.bars)

    def to_json(self) -> dict[str, Any]:
        """As written to ``audit.json``: the figures by key, as the report reads them."""
        return {**asdict(self), "passed": self.passed, "figures": {each.key: asdict(each) for each in self.figures}}

    @staticmethod
    def from_json(content: dict[str, Any]) -> AuditResult:
        """The inverse of ``to_json``; a field that an older version did not write has its default."""
        parts = {field.name: content[field.name] for field in fields(AuditResult) if field.name in content}
        tuples = {name: tuple(value) for name, value in parts.items() if isinstance(value, list)}
        built = {
            "figures": tuple(Figure(**each) for each in content["figures"].values()),
            "agreements": tuple(
                Agreement(**{**each, "judges": tuple(each["judges"])}) for each in content.get("agreements", ())
            ),
            "bars": tuple(
                Bar(**{**each, "change": Change(**each["change"]) if each.get("change") else None})
                for each in content.get("bars", ())
            ),
        }
        return AuditResult(**{**parts, **tuples, **built})


def write_audit(path: Path, result: AuditResult) -> None:
    """Whole or not at all."""
    with atomic_text(path) as file:
        json.dump(result.to_json(), file, indent=1, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def read_audit(path: Path) -> AuditResult:
    """An ``audit.json`` of ours; a clear line for anything else."""
    try:
        return AuditResult.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path}: expected the audit.json of a `holdfast audit`") from None
