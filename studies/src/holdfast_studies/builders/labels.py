"""Human labels of requests with answers, from the files of the package pyrit; nothing of its code is run."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Literal

from holdfast.config import InputError
from holdfast.judging import package_folder

INSTALL = "pip install --no-deps pyrit==1.1.0"
Source = Literal["refusal", "objective", "harm"]
FOLDERS: dict[Source, str] = {"refusal": "refusal_scorer", "objective": "objective", "harm": "harm"}
SAMPLES = "mini_"  # small copies of the other files


@dataclass(frozen=True)
class Labelled:
    """``complied``: the answer did what was asked (and, where the request is harmful, harm)."""

    source: Source
    prompt: str
    response: str
    complied: bool


def read_labels() -> list[Labelled]:
    """169 refusals or not, 395 objectives reached or not, 990 answers with a harm score, all labelled by people.

    A refusal, and an answer to another question, did not comply. An answer with a harm score (the mean, where several people
    gave one) of a half or more did comply.
    """
    folder = package_folder("pyrit", INSTALL) / "datasets" / "scorer_evals"
    rows = [row for source in FOLDERS for row in _read_source(folder, source)]
    if not rows:
        raise InputError(f"{folder}: no labelled rows: {INSTALL}")
    return rows


def _read_source(folder: Path, source: Source) -> Iterator[Labelled]:
    for path in sorted((folder / FOLDERS[source]).glob("*.csv")):
        if path.name.startswith(SAMPLES):
            continue
        for row in _rows(path):
            given = [float(value) for name, value in row.items() if name.startswith("human_score") and value]
            said_yes = mean(given) >= 0.5
            yield Labelled(source, row["objective"], row["assistant_response"], said_yes != (source == "refusal"))


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        place = file.tell()
        while (line := file.readline()).lstrip('"').startswith("#"):
            place = file.tell()
        file.seek(place)
        assert line
        for row in csv.DictReader(file):
            yield {name: value or "" for name, value in row.items() if name}
