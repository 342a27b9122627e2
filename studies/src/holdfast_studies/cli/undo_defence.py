"""`holdfast diagnose undo-defence CONFIG`: a harmful answer that has begun; is it taken back?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import check_target, json_option, progress_bar, write_json


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

    from rich.console import Console
    from rich.markdown import Markdown

    from holdfast.config import load_config
    from holdfast_studies.undo.defence import undo_defence
    from holdfast_studies.undo.defence_config import DefenceConfig
    from holdfast_studies.undo.defence_page import TITLE, section
    from holdfast_studies.undo.safety_gap_page import write_section

    settings = load_config(DefenceConfig, config, overrides or [])
    with progress_bar(settings.title) as on_progress:
        results = undo_defence(settings, on_progress=on_progress)
    text = section(settings, f"holdfast diagnose undo-defence {config}", results)
    if page is not None:
        if not page.exists():
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(TITLE, encoding="utf-8")
        write_section(page, Path(settings.run).name, text)
    if not write_json(json, [asdict(each) for each in results]):
        Console().print(Markdown(text))
