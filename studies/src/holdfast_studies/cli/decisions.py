"""`holdfast diagnose decisions CONFIG`: base, SFT, DFT and GRPO in the arithmetic world, and what each does to deciding."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import check_target, json_option, progress_bar, write_json
from holdfast.config import need_extra


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
    need_extra("rl", "diagnose decisions")
    from holdfast.config import load_config
    from holdfast.data import write_between_marks
    from holdfast_studies.decisions.config import DecisionStudyConfig
    from holdfast_studies.decisions.decision_study import Job, run_study
    from holdfast_studies.decisions.decision_table import compare, page, study_cells

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
        figures = {
            "times": hardest.times.to_json(),
            "p_dW_gap": hardest.p_dw_gap.to_json(),
            "parts": hardest.parts.row(),
        }
        report["hardest"] = {"size": hardest.size, **figures}  # type: ignore[assignment]
    if not write_json(json, report):
        typer.echo(text)
