"""What a study of a published claim measures, and the row it becomes in the ledger."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from holdfast.stats import Estimate, finite_or_none

ClaimVerdict = Literal["holds", "holds in part", "does not hold", "not testable here"]
VERDICTS: tuple[ClaimVerdict, ...] = ("holds", "holds in part", "does not hold", "not testable here")
About = Literal["mathematics", "experiments"]
"""What a claim speaks of: something that can be derived, or something that was or can be measured on a model."""
Rule = Literal["before", "changed", "after"]
"""When the rule of a claim was written: committed before its first run; changed after its figures were seen; written after."""


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One claim of a paper beside what we found. ``measured`` is None where nothing could be run."""

    id: str
    paper: str
    place: str  # where in the paper
    claim: str  # in our words
    printed: str  # the paper's own figures
    measured: Estimate | None  # its n counts seeds; 1 for something exact
    found: str  # what we got, in a sentence
    verdict: ClaimVerdict
    command: str
    erratum: bool = False  # something that the paper has wrong
    about: About = "experiments"
    rule: Rule = "before"
    model: str = ""  # what was run, in words

    def row(self) -> dict[str, Any]:
        """Flat: ``measured``, ``low``, ``high``, ``seeds`` beside the words."""
        flat = asdict(self)
        flat.pop("measured")
        if self.measured is None:
            return {**flat, "measured": None, "low": None, "high": None, "seeds": 0}
        low, high = finite_or_none(self.measured.low), finite_or_none(self.measured.high)
        return {**flat, "measured": self.measured.value, "low": low, "high": high, "seeds": self.measured.n}
