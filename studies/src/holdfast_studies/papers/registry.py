"""Every study by its id: each file of this folder whose name ends with a paper's number holds one."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from holdfast_studies.papers.study import Study

from holdfast.config import InputError, did_you_mean

NUMBERS = ("000", "001", "002", "004")


@cache
def modules() -> dict[str, str]:
    """The module of every study, in order of ids. Imports them all: seconds, so only where a list is needed."""
    names = [path.stem for number in NUMBERS for path in Path(__file__).parent.glob(f"*_{number}.py")]
    found = {study_in(f"holdfast_studies.papers.{name}").id: f"holdfast_studies.papers.{name}" for name in names}
    return dict(sorted(found.items()))


def study_in(module: str) -> Study:
    """The one study of a module."""
    study: Study = import_module(module).STUDY
    return study


def studies() -> dict[str, Study]:
    """By id, in order."""
    return {name: study_in(module) for name, module in modules().items()}


def find_study(name: str) -> Study:
    """By its id or that of one of its claims; a clear line for an id that is not there."""
    for study in studies().values():
        if name == study.id or name in (claim.id for claim in study.claims):
            return study
    known = [*studies(), *(claim.id for study in studies().values() for claim in study.claims)]
    raise InputError(
        f"study '{name}': no such study or claim{did_you_mean(name, known) or '; `holdfast reproduce` lists them'}"
    )
