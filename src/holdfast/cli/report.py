"""`holdfast report RUN`: one HTML file, or with --card the model card."""

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
    card: Annotated[
        bool, typer.Option("--card", help="Write model/README.md, the card that model hubs read, in its place")
    ] = False,
    before: Annotated[Path | None, typer.Option(help="--card: folder of the audit before training")] = None,
) -> None:
    """Write a run as one HTML file that opens from disk, or its model card with the figures of its audit."""
    if not run.is_dir():
        raise InputError(f"{run}: no such run directory")
    if card:
        if out is not None:
            raise InputError("--out: the card is always model/README.md of the run, beside the weights; leave it out")
        from holdfast.audits import write_card

        typer.echo(f"wrote {write_card(run, before=before)}")
        return
    if before is not None:
        raise InputError("--before: belongs to --card")
    from holdfast.reports import write_report

    typer.echo(f"wrote {write_report(run, out)}")
