"""`holdfast diagnose wrong-start CONFIG`: a wrong start is put into a model's mouth; does it take it back and refuse?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import check_target, json_option, progress_bar
from holdfast_studies.cli.telling import shown_command, tell


def wrong_start(
    config: Annotated[Path, typer.Argument(help="The study, a YAML file")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings to change, such as seeds=[0]")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Put the tables into this page of results", callback=check_target)
    ] = None,
    json: json_option = None,
) -> None:
    """Train on refusals that begin wrongly and take it back; then prefill such starts. The same command again goes on."""
    from dataclasses import asdict

    from holdfast.config import load_config
    from holdfast_studies.undo.trying import failures_end_it
    from holdfast_studies.undo.wrong_start import wrong_start
    from holdfast_studies.undo.wrong_start_config import WrongStartConfig
    from holdfast_studies.undo.wrong_start_page import section

    settings = load_config(WrongStartConfig, config, overrides or [])
    with failures_end_it(), progress_bar(settings.title) as on_progress:
        results = wrong_start(settings, on_progress=on_progress)
    text = section(settings, shown_command("wrong-start", config, overrides or []), results)
    tell(text, [asdict(result) for result in results], run=settings.run, page=page, json=json)
