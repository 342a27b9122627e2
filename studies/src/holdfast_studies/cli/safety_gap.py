"""`holdfast diagnose safety-gap CONFIG`: does training on mistakes teach them? sft against masked_sft."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import check_target, json_option, progress_bar, write_json


def safety_gap(
    config: Annotated[Path, typer.Argument(help="The study, a YAML file")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings to change, such as seeds=[0]")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Put the figures into this page of results", callback=check_target)
    ] = None,
    json: json_option = None,
) -> None:
    """Gradient identities, curves along training, what the trained models do. The same command again goes on."""
    from rich.console import Console
    from rich.markdown import Markdown

    from holdfast.config import load_config
    from holdfast_studies.undo.safety_gap import identities, safety_gap
    from holdfast_studies.undo.safety_gap_config import SafetyGapConfig
    from holdfast_studies.undo.safety_gap_page import section, write_section
    from holdfast_studies.undo.safety_gap_verdict import Study

    settings = load_config(SafetyGapConfig, config, overrides or [])
    with progress_bar(settings.title) as on_progress:
        results = safety_gap(settings, on_progress=on_progress)
    found, study = identities(settings), Study(results)
    command = " ".join(["holdfast diagnose safety-gap", str(config), *(overrides or [])])
    text = section(settings, command, study, found)
    if page is not None:
        write_section(page, Path(settings.run).name, text)
    figures = {
        "identities": {context: each._asdict() for context, each in found.items()},
        "verdicts": [each._asdict() for each in study.verdicts()],
        "goals": [each._asdict() for each in study.goals()],
        "arms": [each.row() for each in results],
    }
    if not write_json(json, figures):
        Console().print(Markdown(text))
