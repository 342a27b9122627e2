"""`holdfast reproduce`: the papers' claims, run and judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output import json_option, write_json

if TYPE_CHECKING:
    from holdfast.papers import Scale, Study
    from holdfast.records.studies import StudyRow


def reproduce(
    study: Annotated[str | None, typer.Argument(help="An id, or 'all'; without it, the list of studies")] = None,
    scale: Annotated[str, typer.Option(help="cpu (two cores) or h200")] = "cpu",
    out: Annotated[Path, typer.Option(help="Where figures are kept; run it again to reuse them")] = Path("runs/papers"),
    write: Annotated[Path | None, typer.Option(help="Write the ledger page here, e.g. docs/papers.md")] = None,
    fresh: Annotated[bool, typer.Option(help="Run again what is there already")] = False,
    json: json_option = None,
) -> None:
    """Run studies of the four papers' claims and judge each claim by the rule written in the study."""
    from holdfast.config import InputError
    from holdfast.papers import SCALES, STUDIES, find_study, write_ledger

    if scale not in SCALES:
        raise InputError(f"--scale: expected one of {', '.join(SCALES)}, not '{scale}'")
    if study is None:
        _list(list(STUDIES.values()))
        return
    chosen = list(STUDIES.values()) if study == "all" else [find_study(study)]
    rows = _run(chosen, scale, out, fresh)
    if write is not None:
        write_ledger(write, rows)
    if not write_json(json, [row.row() for row in rows]):
        _show(rows)


def _run(studies: list[Study], scale: Scale, out: Path, fresh: bool) -> list[StudyRow]:
    """A study that has no such scale is run at the one it has; its rows say so by their command."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from holdfast.papers import figures_of, rows_of

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    rows: list[StudyRow] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        weights = [max(_cost(study, scale), 0.1) for study in studies]
        task = bar.add_task("papers", total=sum(weights))
        for number, study in enumerate(studies):
            before = sum(weights[:number])
            bar.update(task, description=study.id, completed=before)

            def on_progress(share: float, before: float = before, weight: float = weights[number]) -> None:
                bar.update(task, completed=before + share * weight)

            used = _scale(study, scale)
            rows += rows_of(study, used, figures_of(study, used, out, on_progress, fresh=fresh))
    return rows


def _scale(study: Study, wanted: Scale) -> Scale:
    return wanted if wanted in study.seconds else next(iter(study.seconds))


def _cost(study: Study, scale: Scale) -> float:
    return study.seconds[_scale(study, scale)]


def _list(studies: list[Study]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("id", "what", "claims", "about", box=None, header_style="bold")
    for study in studies:
        about = ", ".join(f"{scale} {seconds:g} s" for scale, seconds in study.seconds.items())
        table.add_row(study.id, study.title, str(len(study.claims)), about)
    Console(highlight=False).print(table)


def _show(rows: list[StudyRow]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("claim", "printed", "found", "verdict", box=None, header_style="bold")
    for row in rows:
        table.add_row(f"{row.id}: {row.claim}", row.printed, row.found, row.verdict)
    Console(highlight=False).print(table)
