"""`holdfast report RUN`: one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.output import check_target
from holdfast.config.errors import InputError


def report(
    run: Annotated[Path, typer.Argument(help="A run directory: a training run, or a matrix")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write it; default: report.html in the run", callback=check_target)
    ] = None,
) -> None:
    """Write a run as one HTML file that opens from disk."""
    from holdfast.reports import write_report

    if not run.is_dir():
        raise InputError(f"{run}: no such run directory")
    typer.echo(f"wrote {write_report(run, out)}")
