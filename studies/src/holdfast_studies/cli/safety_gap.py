"""`holdfast diagnose safety-gap CONFIG`: does training on mistakes teach them? sft against masked_sft."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import check_target, json_option, progress_bar
from holdfast.config import InputError
from holdfast_studies.cli.telling import shown_command, tell

if TYPE_CHECKING:
    from holdfast_studies.undo.safety_gap import ArmResult
    from holdfast_studies.undo.safety_gap_config import SafetyGapConfig


def safety_gap(
    config: Annotated[Path, typer.Argument(help="The study, a YAML file")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings to change, such as seeds=[0]")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Put the figures into this page of results", callback=check_target)
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Say what it would cost, and stop (traces.builder: own)")] = False,
    json: json_option = None,
) -> None:
    """Gradient identities, curves along training, what the trained models do. The same command again goes on."""
    from rich.console import Console
    from rich.markdown import Markdown

    from holdfast.config import load_config
    from holdfast_studies.undo.safety_gap import check_files, safety_gap
    from holdfast_studies.undo.safety_gap_config import SafetyGapConfig
    from holdfast_studies.undo.trying import failures_end_it

    settings = load_config(SafetyGapConfig, config, overrides or [])
    if dry_run:
        from holdfast_studies.undo.own_cost import cost_table

        if settings.traces.builder != "own":
            raise InputError("--dry-run: only for studies with traces.builder: own")
        check_files(settings)
        Console().print(Markdown(cost_table(settings)))
        return
    with failures_end_it(), progress_bar(settings.title) as on_progress:
        results = safety_gap(settings, on_progress=on_progress, say=_say)
    command = shown_command("safety-gap", config, overrides or [])
    text, figures = _told(settings, command, results)
    tell(text, figures, run=settings.run, page=page, json=json)


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _told(settings: SafetyGapConfig, command: str, results: list[ArmResult]) -> tuple[str, dict[str, Any]]:
    """The section of the page, and the figures as data."""
    from holdfast_studies.undo import own_page, safety_gap_page
    from holdfast_studies.undo.own_figures import OwnFigures, pool_of
    from holdfast_studies.undo.safety_gap import identities
    from holdfast_studies.undo.safety_gap_task import GapTask
    from holdfast_studies.undo.safety_gap_verdict import Study

    by_context, study, task = identities(settings), Study(results), GapTask(settings)
    figures: dict[str, Any] = {
        "identities": {context: identity._asdict() for context, identity in by_context.items()},
        "verdicts": [verdict._asdict() for verdict in study.verdicts()],
        "arms": [result.row() for result in results],
    }
    if not task.is_own:
        figures["goals"] = [goal._asdict() for goal in study.goals()]
        return safety_gap_page.section(settings, command, study, by_context), figures
    own, pools = OwnFigures(study), {"train": pool_of(task.own("train")), "test": pool_of(task.own("test"))}
    figures |= {"pools": {part: pool._asdict() for part, pool in pools.items()}, "ways": own.row()}
    return own_page.section(settings, command, own, pools, by_context), figures
