"""`holdfast diagnose checks FILE`: what the checks in responses of the arithmetic world do, counted."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import as_written, json_option, write_json
from holdfast.config import InputError

COLUMNS = {
    "verdicts": "verdicts",
    "following": "that follow from the values written",
    "reaching": "checks that reach the first wrong step",
    "copied": "there: the attempt's value",
    "computed": "the right value instead",
    "other": "another one",
}


def checks(
    files: Annotated[list[Path], typer.Argument(help="Responses of a world with `beside: true`")],
    base: Annotated[int, typer.Option(help="The base it counts in", min=2)] = 5,
    by: Annotated[str | None, typer.Option(help="One row per value of this column, such as size")] = None,
    json: json_option = None,
) -> None:
    """Whether verdicts follow from what a check wrote, and whether it wrote what the attempt has."""
    from rich.console import Console
    from rich.table import Table

    from holdfast.diagnostics import Columns, by_group, read_transcripts
    from holdfast_studies.decisions.checks import count_checks

    rows = [
        {"file": str(path), "group": group, **asdict(count_checks(transcripts, base))}
        for path in files
        for group, transcripts in by_group(read_transcripts(path, Columns(group=by)).transcripts).items()
    ]
    if not any(row["verdicts"] for row in rows):
        raise InputError(f"{files[0]}: no check in it writes two values at a step, as a world with beside: true does")
    if not write_json(json, {"checks": rows}):
        table = Table("", *COLUMNS.values(), box=None)
        for row in rows:
            table.add_row(as_written(f"{row['file']} {row['group']}"), *(str(row[name]) for name in COLUMNS))
        Console(highlight=False).print(table)
