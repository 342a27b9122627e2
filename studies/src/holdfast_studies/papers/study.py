"""A study: how one table, figure or theorem is put to the test, and the rule that turns its figures into verdicts.

Set-up and rule are written before the first run; where that is not so, ``rule`` says it. A study is data and two kinds of pure
functions: ``run`` makes figures from a scale, a claim's ``judge`` makes a finding from figures. So a verdict can be had again
from the figures on disk, and a test can change a figure and see the verdict change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from holdfast.stats import Estimate
from holdfast_studies.papers.measured import About, ClaimVerdict, Rule

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
