"""The studies of taking back: `holdfast diagnose safety-gap`, `undo-costs`, `undo-defence` and `wrong-start`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from holdfast.cli import check_target, json_option, progress_bar, write_json
from holdfast.config import InputError, need_extra

if TYPE_CHECKING:
    from holdfast_studies.undo.safety_gap import ArmResult
    from holdfast_studies.undo.safety_gap_config import SafetyGapConfig

ConfigPath = Annotated[Path, typer.Argument(help="The study, a YAML file")]
Overrides = Annotated[list[str] | None, typer.Argument(help="Settings to change, such as seeds=[0]")]
Page = Annotated[Path | None, typer.Option(help="Put the tables into this page of results", callback=check_target)]
TITLE = "# Taking it back: results\n"
"""How a page begins that does not exist yet."""
Result = TypeVar("Result")


def safety_gap(
    config: ConfigPath,
    overrides: Overrides = None,
    page: Page = None,
    dry_run: Annotated[bool, typer.Option(help="Say what it would cost, and stop (traces.builder: own)")] = False,
    json: json_option = None,
) -> None:
    """Gradient identities, curves along training, what the trained models do. The same command again goes on."""
    from holdfast.config import load_config
    from holdfast_studies.undo.safety_gap import check_files, safety_gap
    from holdfast_studies.undo.safety_gap_config import SafetyGapConfig

    settings = load_config(SafetyGapConfig, config, overrides or [])
    if dry_run:
        from holdfast_studies.undo.own_cost import cost_table

        if settings.traces.builder != "own":
            raise InputError("--dry-run: only for studies with traces.builder: own")
        check_files(settings)
        _print(cost_table(settings))
        return
    results = _ran(partial(safety_gap, say=partial(typer.echo, err=True)), settings)
    text, figures = _safety_gap_figures(settings, shown_command("safety-gap", config, overrides), results)
    _tell(text, figures, settings.run, page, json)


def undo_costs(config: ConfigPath, overrides: Overrides = None, page: Page = None, json: json_option = None) -> None:
    """GRPO (TRL) for several costs of an undo: accuracy against undo rate, precision, recall, false undos."""
    need_extra("rl", "diagnose undo-costs")
    from holdfast.config import load_config
    from holdfast_studies.undo.undo_costs import UndoCostsConfig, cost_table, section, undo_costs

    settings = load_config(UndoCostsConfig, config, overrides or [])
    rows = cost_table(_ran(undo_costs, settings))
    text = section(settings, shown_command("undo-costs", config, overrides), rows)
    figures = [
        {name: value.to_json(n="trials") if hasattr(value, "to_json") else value for name, value in row.items()}
        for row in rows
    ]
    _tell(text, figures, settings.run, page, json)


def undo_defence(config: ConfigPath, overrides: Overrides = None, page: Page = None, json: json_option = None) -> None:
    """Train models to take harmful beginnings back, then begin their answers. No text is kept. The same command goes on."""
    from holdfast.config import load_config
    from holdfast_studies.undo.defence import undo_defence
    from holdfast_studies.undo.defence_config import DefenceConfig
    from holdfast_studies.undo.defence_page import TITLE, section

    settings = load_config(DefenceConfig, config, overrides or [])
    results = _ran(undo_defence, settings)
    text = section(settings, shown_command("undo-defence", config, overrides), results)
    _tell(text, [asdict(result) for result in results], settings.run, page, json, title=TITLE)


def wrong_start(config: ConfigPath, overrides: Overrides = None, page: Page = None, json: json_option = None) -> None:
    """Train on refusals that begin wrongly and take it back; then prefill such starts. The same command again goes on."""
    from holdfast.config import load_config
    from holdfast_studies.undo.wrong_start import WrongStartConfig, section, wrong_start

    settings = load_config(WrongStartConfig, config, overrides or [])
    results = _ran(wrong_start, settings)
    text = section(settings, shown_command("wrong-start", config, overrides), results)
    _tell(text, [asdict(result) for result in results], settings.run, page, json)


def _ran(study: Callable[..., list[Result]], settings: Any) -> list[Result]:
    """Run the study under a progress bar. Models that failed are named at the end; the exit code is then 1."""
    from holdfast_studies.undo.running import ModelsFailed

    try:
        with progress_bar(settings.title) as on_progress:
            return study(settings, on_progress=on_progress)
    except ModelsFailed as failed:
        typer.echo(f"holdfast: {failed}", err=True)
        raise typer.Exit(1) from None


def shown_command(name: str, config: Path, overrides: Sequence[str] | None) -> str:
    """The command as a page shows it. Of a model or a file only the name is shown: folders differ between machines."""
    words = []
    for word in overrides or ():
        key, _, value = word.partition("=")
        kind, colon, path = value.rpartition(":")
        words.append(f"{key}={kind}{colon}{Path(path).name}" if key != "run" and Path(path).exists() else word)
    return " ".join(["holdfast diagnose", name, str(config), *words])


def _tell(text: str, figures: Any, run: str, page: Path | None, json: Path | None, title: str = TITLE) -> None:
    """Write the section into the page and the figures as JSON. Without ``json`` the section is printed."""
    from holdfast_studies.markdown import write_section

    if page is not None:
        write_section(page, text, Path(run).name, title)
    if not write_json(json, figures):
        _print(text)


def _print(text: str) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


def _safety_gap_figures(
    settings: SafetyGapConfig, command: str, results: list[ArmResult]
) -> tuple[str, dict[str, Any]]:
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
