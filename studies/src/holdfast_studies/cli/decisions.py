"""`holdfast diagnose decisions CONFIG`: base, SFT, DFT and GRPO in the arithmetic world, and what each does to deciding."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import check_target, json_option, progress_bar, write_json
from holdfast.config import InputError


def decisions(
    config: Annotated[Path, typer.Argument(help="The study, a YAML file")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings to change, such as seeds=[0]")] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Write the table here, between marks with the config's name, or at the end", callback=check_target
        ),
    ] = None,
    json: json_option = None,
) -> None:
    """Train what is missing, measure, and show the table. The same command again goes on where it stopped."""
    from holdfast_studies.decisions.config import DecisionStudyConfig
    from holdfast_studies.decisions.decision_study import Job, run_study
    from holdfast_studies.decisions.decision_table import compare, page, study_cells

    from holdfast.config import load_config

    settings = load_config(DecisionStudyConfig, config, overrides or [])
    with progress_bar("decisions") as on_progress:

        def on_job(_: Job, done: int, total: int) -> None:
            on_progress(done, total)

        run_study(settings, on_job=on_job)
    cells = study_cells(settings)
    command = " ".join(["holdfast diagnose decisions", str(config), *(overrides or [])])
    text = page(settings, cells, command)
    if results is not None:
        write_between_marks(results, text, config.stem)
    hardest = compare(settings, cells, settings.eval_sizes[-1])
    report = {"kind": "decisions", "cells": [cell.row() for cell in cells]}
    write_json(Path(settings.run) / "decisions.json", report["cells"])  # for `holdfast report`
    if hardest is not None:
        figures = {"times": hardest.times.row(), "p_dW_gap": hardest.p_dw_gap.row(), "parts": hardest.parts.row()}
        report["hardest"] = {"size": hardest.size, **figures}  # type: ignore[assignment]
    if not write_json(json, report):
        typer.echo(text)


BEGIN, END = "<!-- {name}:begin -->", "<!-- {name}:end -->"


def write_between_marks(path: Path, text: str, name: str) -> None:
    """Put the text between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``; what stands around it stays."""
    from holdfast import atomic_text

    begin, end = BEGIN.format(name=name), END.format(name=name)
    old = path.read_text(encoding="utf-8") if path.exists() else f"{begin}\n{end}\n"
    before, begun, rest = old.partition(begin)
    _, ended, after = rest.partition(end)
    if begun and not ended:
        raise InputError(f"{path}: {begin} without {end} after it; put that back, or take the first one out")
    with atomic_text(path) as file:
        file.write(f"{before}{begin}\n{text}{end}{after}")
