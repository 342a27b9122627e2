"""A study: how one table, figure or theorem is put to the test, and the rule that turns its figures into verdicts.

Set-up and rule are written before the first run; where that is not so, ``rule`` says it. A study is data and two kinds of pure
functions: ``run`` makes figures from a scale, a claim's ``judge`` makes a finding from figures. So a verdict can be had again
from the figures on disk, and a test can change a figure and see the verdict change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from holdfast.stats import Estimate, finite_or_none

ClaimVerdict = Literal["holds", "holds in part", "does not hold", "not testable here"]
VERDICTS: tuple[ClaimVerdict, ...] = ("holds", "holds in part", "does not hold", "not testable here")
About = Literal["mathematics", "experiments"]
"""What a claim speaks of: something that can be derived, or something that was or can be measured on a model."""
Rule = Literal["before", "changed", "after"]
"""When the rule of a claim was written: committed before its first run; changed after its figures were seen; written after."""
Machine = Literal["cpu", "h200"]
MACHINES: tuple[Machine, ...] = ("cpu", "h200")
Figures = dict[str, Any]
"""Plain JSON: numbers, strings, lists and dicts."""
OnProgress = Callable[[float], None]
"""Hears the share done, 0 to 1."""


class Finding(NamedTuple):
    """What a claim's rule says of the figures."""

    verdict: ClaimVerdict
    found: str
    measured: Estimate | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One sentence that a paper prints, and the rule that judges it."""

    id: str  # the study's id, or that id and a word
    place: str
    text: str
    printed: str
    judge: Callable[[Figures], Finding]
    erratum: bool = False  # something the paper has wrong, shown by a number
    about: About | None = None  # None: as the study says
    rule: Rule | None = None  # None: as the study says


@dataclass(frozen=True, kw_only=True)
class Study:
    """One file in this folder. ``seconds``: about how long each scale takes; a scale that is not there is not offered.

    Without any scale there is nothing to run: its claims cannot be tested here. ``reads``: the files of finished runs that it
    makes its figures from, those that are there; when they change, kept figures are made again.
    """

    id: str
    paper: str
    title: str
    claims: tuple[Claim, ...]
    run: Callable[[Machine, OnProgress], Figures]
    seconds: dict[Machine, float]
    reads: Callable[[Machine], Sequence[Path]] = lambda scale: ()
    about: About = "experiments"
    rule: Rule = "before"
    model: str | Mapping[Machine, str] = "no model"  # what is run, in words; by scale where scales differ

    def model_at(self, scale: Machine) -> str:
        """What this scale runs."""
        return self.model if isinstance(self.model, str) else self.model[scale]


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


def verdict_of(parts: Collection[bool]) -> ClaimVerdict:
    """The verdict on a claim of several parts: it holds if all of them are true, and in part if some are."""
    if all(parts):
        return "holds"
    return "holds in part" if any(parts) else "does not hold"


def needed(what: str) -> Finding:
    """The finding of a claim that the figures cannot decide: what would be needed instead."""
    return Finding("not testable here", f"needed: {what}")


def untestable(study: str, paper: str, title: str, *claims: tuple[str, str, str, str]) -> Study:
    """Claims that no run here can speak to: (place, text, printed, what would be needed) each."""

    def nothing(scale: Machine, on_progress: OnProgress) -> Figures:
        raise AssertionError(f"{study}: there is nothing to run")

    def needs(what: str) -> Callable[[Figures], Finding]:
        return lambda _: needed(what)

    return Study(
        id=study,
        paper=paper,
        title=title,
        claims=tuple(
            Claim(id=f"{study}-{number}", place=place, text=text, printed=printed, judge=needs(what))
            for number, (place, text, printed, what) in enumerate(claims, 1)
        ),
        run=nothing,
        seconds={},
        model="not run here",
    )
