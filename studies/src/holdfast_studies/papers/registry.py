"""Every study by its id: each file of this folder whose name ends with a paper's number holds one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from holdfast.config import InputError, did_you_mean
from holdfast_studies.papers.study import Study

NUMBERS = ("000", "001", "002", "004")


def _files() -> list[Path]:
    return [path for number in NUMBERS for path in Path(__file__).parent.glob(f"*_{number}.py")]


def _study_in(file: Path) -> Study:
    """The one study of a file."""
    study: Study = import_module(f"holdfast_studies.papers.{file.stem}").STUDY
    return study


@cache
def studies() -> dict[str, Study]:
    """All studies by id, in order. This imports every study, which takes seconds: use it for a list of them only."""
    return {study.id: study for study in sorted(map(_study_in, _files()), key=lambda study: study.id)}


def _likeliest_first(name: str) -> Iterator[Study]:
    """First those in whose file the id stands as a string: most often the one, and then no other is imported."""
    for file in _files():
        if f'"{name}"' in file.read_text(encoding="utf-8"):
            yield _study_in(file)
    yield from studies().values()


def find_study(name: str) -> Study:
    """A study by its id or that of one of its claims. Raises ``InputError`` for an id that is not there."""
    for study in _likeliest_first(name):
        if name == study.id or name in (claim.id for claim in study.claims):
            return study
    known = [*studies(), *(claim.id for study in studies().values() for claim in study.claims)]
    raise InputError(
        f"study '{name}': no such study or claim{did_you_mean(name, known) or '; `holdfast reproduce` lists them'}"
    )
