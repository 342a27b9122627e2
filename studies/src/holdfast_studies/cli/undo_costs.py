"""`holdfast diagnose undo-costs CONFIG`: what a price on taking back does to a model that is rewarded for being right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import check_target, json_option, progress_bar
from holdfast.config import need_extra
from holdfast_studies.cli.telling import shown_command, tell


def undo_costs(
    config: Annotated[Path, typer.Argument(help="The study, a YAML file")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings to change, such as costs=[0,0.1]")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Put the table into this page of results", callback=check_target)
    ] = None,
    json: json_option = None,
) -> None:
    """GRPO (TRL) for several costs of an undo: accuracy against undo rate, precision, recall, false undos."""
    need_extra("rl", "diagnose undo-costs")
    from holdfast.config import load_config
    from holdfast_studies.undo.trying import failures_end_it
    from holdfast_studies.undo.undo_costs import cost_table, undo_costs
    from holdfast_studies.undo.undo_costs_config import UndoCostsConfig
    from holdfast_studies.undo.undo_costs_page import section

    settings = load_config(UndoCostsConfig, config, overrides or [])
    with failures_end_it(), progress_bar(settings.title) as on_progress:
        rows = cost_table(undo_costs(settings, on_progress=on_progress))
    text = section(settings, shown_command("undo-costs", config, overrides or []), rows)
    plain = [
        {name: value.to_json(n="trials") if hasattr(value, "to_json") else value for name, value in row.items()}
        for row in rows
    ]
    tell(text, plain, run=settings.run, page=page, json=json)
