"""What a study of a published claim measures, and the row it becomes in the ledger."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["holds", "holds in part", "does not hold", "not testable here"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure with what is known of its spread. ``seeds`` counts independent repetitions; 1 for something exact."""

    value: float
    low: float | None = None
    high: float | None = None
    seeds: int = 1


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One claim of a paper beside what we found. ``measured`` is None where nothing could be run."""

    id: str
    paper: str
    place: str  # where in the paper
    claim: str  # in our words
    printed: str  # the paper's own figures
    measured: Measured | None
    found: str  # what we got, in a sentence
    verdict: Verdict
    command: str
    erratum: bool = False  # something that the paper has wrong

    def row(self) -> dict[str, Any]:
        """Flat: ``measured``, ``low``, ``high``, ``seeds`` beside the words."""
        flat = asdict(self)
        measured = flat.pop("measured") or {"value": None, "low": None, "high": None, "seeds": 0}
        return {**flat, "measured": measured.pop("value"), **measured}
