"""`holdfast diagnose undo-defence CONFIG`: a harmful answer that has begun; is it taken back?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import check_target, json_option, progress_bar
from holdfast_studies.cli.telling import tell


def undo_defence(
    config: Annotated[Path, typer.Argument(help="The study, a YAML file")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings to change, such as seeds=[0]")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Put the tables into this page of results", callback=check_target)
    ] = None,
    json: json_option = None,
) -> None:
    """Train models to take harmful beginnings back, then begin their answers. No text is kept. The same command goes on."""
    from dataclasses import asdict

    from holdfast.config import load_config
    from holdfast_studies.undo.defence import undo_defence
    from holdfast_studies.undo.defence_config import DefenceConfig
    from holdfast_studies.undo.defence_page import TITLE, section
    from holdfast_studies.undo.trying import failures_end_it

    settings = load_config(DefenceConfig, config, overrides or [])
    with failures_end_it(), progress_bar(settings.title) as on_progress:
        results = undo_defence(settings, on_progress=on_progress)
    text = section(settings, f"holdfast diagnose undo-defence {config}", results)
    tell(text, [asdict(result) for result in results], run=settings.run, page=page, json=json, title=TITLE)
