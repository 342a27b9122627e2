"""Figures on disk: one file per study and scale, with when and how they were made."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import holdfast
from holdfast.config import InputError
from holdfast.data import atomic_text
from holdfast_studies.papers.fingerprint import fingerprint, inputs
from holdfast_studies.papers.study import Figures, Machine, OnProgress, Study


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The figures of one run."""

    study: str
    scale: Machine
    source: str  # fingerprint of the code that made them
    date: str
    version: str
    seconds: float
    figures: Figures
    inputs: str | None = None  # fingerprint of the finished runs that they were read from


def make_figures(study: Study, scale: Machine, folder: Path, on_progress: OnProgress) -> Kept:
    """Run the study and keep what it found. A run that fails leaves nothing behind."""
    started = time.monotonic()
    figures = study.run(scale, on_progress)
    kept = Kept(
        study=study.id,
        scale=scale,
        source=fingerprint(study),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        version=holdfast.__version__,
        seconds=round(time.monotonic() - started, 1),
        figures=figures,
        inputs=inputs(study, scale),
    )
    text = json.dumps(asdict(kept), allow_nan=False)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_text(_path(study, scale, folder)) as file:
        file.write(text + "\n")
    return Kept(**json.loads(text))  # as a later reader will see it: tuples are lists by now


def kept_figures(study: Study, scale: Machine, folder: Path) -> Kept | None:
    """None if there are none, or if the code that made them has changed since."""
    path = _path(study, scale, folder)
    if not path.exists():
        return None
    try:
        kept = Kept(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: not the figures of a study ({error}); delete it") from error
    return kept if kept.source == fingerprint(study) else None


def is_current(study: Study, kept: Kept) -> bool:
    """Whether the runs that the figures were read from are still the same; they count as such where nobody can tell."""
    now = inputs(study, kept.scale)
    return None in (kept.inputs, now) or kept.inputs == now


def _path(study: Study, scale: Machine, folder: Path) -> Path:
    return folder / f"{study.id}.{scale}.json"
