"""Every study by its id: each file of this folder whose name ends with a paper's number holds one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from holdfast.config import InputError, did_you_mean
from holdfast.papers.study import Study

NUMBERS = ("000", "001", "002", "004")


def _found() -> dict[str, Study]:
    names = [path.stem for number in NUMBERS for path in Path(__file__).parent.glob(f"*_{number}.py")]
    studies: list[Study] = [import_module(f"holdfast.papers.{name}").STUDY for name in names]
    return {study.id: study for study in sorted(studies, key=lambda study: study.id)}


STUDIES = _found()


def find_study(name: str) -> Study:
    """By its id or that of one of its claims; a clear line for an id that is not there."""
    for study in STUDIES.values():
        if name == study.id or name in (claim.id for claim in study.claims):
            return study
    known = [*STUDIES, *(claim.id for study in STUDIES.values() for claim in study.claims)]
    raise InputError(
        f"study '{name}': no such study or claim{did_you_mean(name, known) or '; `holdfast reproduce` lists them'}"
    )
