"""Running studies: figures are kept on disk by study and scale, so an interrupted `reproduce all` goes on where it stopped."""

from __future__ import annotations

import hashlib
import inspect
import json
from pathlib import Path

from holdfast.papers.study import Claim, Figures, Finding, OnProgress, Scale, Study
from holdfast.records.studies import StudyRow
from holdfast.records.writing import atomic_text


def figures_of(study: Study, scale: Scale, folder: Path, on_progress: OnProgress, *, fresh: bool = False) -> Figures:
    """From disk if the study's own file is unchanged since; else run, and kept. A run that fails leaves nothing behind.

    What the study calls may have changed too: ``fresh`` runs it again.
    """
    path = folder / f"{study.id}.{scale}.json"
    source = _source_hash(study)
    if path.exists() and not fresh:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["source"] == source:
            return dict(kept["figures"])
    figures = study.run(scale, on_progress)
    text = json.dumps({"study": study.id, "scale": scale, "source": source, "figures": figures}, indent=1)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_text(path) as file:
        file.write(text + "\n")
    return dict(json.loads(text)["figures"])  # as a later run will read it: tuples are lists by now


def rows_of(study: Study, scale: Scale, figures: Figures) -> list[StudyRow]:
    """One row per claim."""
    return [_row(study, scale, claim, claim.judge(figures)) for claim in study.claims]


def _row(study: Study, scale: Scale, claim: Claim, finding: Finding) -> StudyRow:
    option = "" if scale == "cpu" else f" --scale {scale}"
    return StudyRow(
        id=claim.id,
        paper=study.paper,
        place=claim.place,
        claim=claim.text,
        printed=claim.printed,
        measured=finding.measured,
        found=finding.found,
        verdict=finding.verdict,
        command=f"holdfast reproduce {study.id}{option}",
    )


def _source_hash(study: Study) -> str:
    """Of the file that defines the study: set-up, measures and rule stand there."""
    file = inspect.getsourcefile(study.run)
    assert file is not None, f"{study.id}: its run function has no source file"
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
