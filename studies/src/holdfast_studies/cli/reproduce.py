"""`holdfast reproduce`: the papers' claims, run and judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import check_target, json_option, write_json

if TYPE_CHECKING:
    from holdfast_studies.papers.figure_files import Kept
    from holdfast_studies.papers.study import Machine, Study, StudyRow

Folder = Annotated[Path, typer.Option(help="Where figures are kept; run it again and it goes on from there")]
Stored = Annotated[Path | None, typer.Option(help="Judge the figures that lie here and run nothing")]


def reproduce(
    study: Annotated[
        str | None, typer.Argument(help="The id of a study or claim, or 'all'; without it, the list of studies")
    ] = None,
    scale: Annotated[str, typer.Option(help="cpu (two cores) or h200: what needs a GPU")] = "cpu",
    out: Folder = Path("runs/papers"),
    stored: Stored = None,
    write: Annotated[
        Path | None, typer.Option(help="Write the page of all claims here, in Markdown", callback=check_target)
    ] = None,
    fresh: Annotated[bool, typer.Option(help="Run again what is there already")] = False,
    workers: Annotated[int, typer.Option(help="Studies at once, one core each; on a GPU always one", min=1)] = 2,
    json: json_option = None,
) -> None:
    """Run studies of the four papers' claims and judge each claim by the rule written in the study."""
    from holdfast.config import InputError
    from holdfast_studies import papers

    if scale not in papers.MACHINES:
        raise InputError(f"--scale: expected one of {', '.join(papers.MACHINES)}, not '{scale}'")
    if study is None and (write or json or stored or fresh):
        raise InputError("reproduce: expected the id of a study, or all; without one the studies are only listed")
    if stored is not None and fresh:
        raise InputError("--stored runs nothing, --fresh runs again: leave one of them out")
    if study is None:
        _list(list(papers.studies().values()))
        return
    chosen = list(papers.studies().values()) if study == "all" else [papers.find_study(study)]
    if study != "all" and stored is None and chosen[0].seconds and scale not in chosen[0].seconds:
        raise InputError(f"--scale: {chosen[0].id} runs at {', '.join(chosen[0].seconds)} only")
    failed: dict[str, str] = {}
    if stored is None:
        kept, failed = _run(chosen, scale, out, fresh, 1 if scale == "h200" else workers)
    else:
        kept = papers.stored(chosen, stored)
    rows = [row for study in chosen for row in papers.rows_of(study, kept.get(study.id)) if study.id not in failed]
    if stored is None:
        write_json(out / "papers.json", [row.row() for row in rows])  # for `holdfast report`
    if write is not None and not failed:
        papers.write_ledger(write, chosen, kept)
    if not write_json(json, [row.row() for row in rows]):
        _show(rows)
    for name, reason in failed.items():
        typer.echo(f"holdfast: {name} failed: {reason}", err=True)
    if failed:
        raise typer.Exit(1)


def _run(
    studies: list[Study], scale: Machine, out: Path, fresh: bool, workers: int
) -> tuple[dict[str, Kept], dict[str, str]]:
    from holdfast.cli import progress_bar
    from holdfast_studies.papers import run_studies

    out.mkdir(parents=True, exist_ok=True)
    with progress_bar("papers") as on_progress:

        def on_shares(done: float, total: float, busy: str) -> None:
            on_progress(round(done), round(total), f"papers, seconds of work: {busy}")

        ran = run_studies(studies, scale, out, num_workers=workers, fresh=fresh, on_shares=on_shares)
    return ran.kept, ran.failed


def _list(studies: list[Study]) -> None:
    """Print what each study costs, and the sum."""
    from rich.console import Console
    from rich.table import Table

    table = Table("id", "what", "claims", "about", box=None, header_style="bold")
    for study in studies:
        about = ", ".join(f"{scale} {seconds:g} s" for scale, seconds in study.seconds.items())
        table.add_row(study.id, study.title, str(len(study.claims)), about)
    cpu = sum(study.seconds.get("cpu", 0) for study in studies)
    gpu = sum(study.seconds.get("h200", 0) for study in studies)
    whole = f"all: {sum(len(study.claims) for study in studies)} claims; --scale cpu {cpu / 60:.0f} min of one core; "
    console = Console(highlight=False)
    console.print(table)
    console.print(whole + f"--scale h200 {gpu / 60:.0f} min")


def _show(rows: list[StudyRow]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("claim", "printed", "found", "verdict", box=None, header_style="bold")
    for row in rows:
        table.add_row(*map(escape, (f"{row.id}: {row.claim}", row.printed, row.found, row.verdict)))
    Console(highlight=False).print(table)
