"""`holdfast compare A B`: is B worse than A on the same items?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output import as_written, json_option, write_json

if TYPE_CHECKING:
    from holdfast.evaluations import Compared, Comparison


def compare(
    first: Annotated[Path, typer.Argument(help="An audit, lm-eval's samples, an inspect log, or rows (id, score)")],
    second: Annotated[Path, typer.Argument(help="The same items, later: is it worse?")],
    figure: Annotated[list[str] | None, typer.Option(help="Only this figure; several may be named")] = None,
    less: Annotated[
        list[str] | None, typer.Option(help="Of this figure less is better, if the file does not say")
    ] = None,
    margin: Annotated[float | None, typer.Option(help="Show that it is not worse by this much or more")] = None,
    common: Annotated[bool, typer.Option(help="Leave out items that only one of them has")] = False,
    json: json_option = None,
) -> None:
    """Compare two evaluations of the same items, in pairs. Exit code 1 if the second is worse, or not shown not to be."""
    from holdfast.evaluations import compare as compare_evaluations

    done = compare_evaluations(first, second, figures=figure or (), less=less or (), common=common, margin=margin)
    if not write_json(json, done.to_json()):
        _show(done)
    if not done.passed:
        raise typer.Exit(1)


def _show(done: Comparison) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("figure", "A", "B", "B - A [95 %]", "p", "items", "could show", ""):
        table.add_column(column, no_wrap=True)
    for compared in done.figures:
        table.add_row(as_written(compared.figure), *_cells(compared))
    needed = Console(width=1000).measure(table).maximum  # long names are not cut; the terminal wraps them
    console = Console(highlight=False)
    console.width = max(console.width, needed)
    console.print(as_written(f"A: {done.first}"), soft_wrap=True)
    console.print(as_written(f"B: {done.second}"), soft_wrap=True)
    console.print(table)
    for note in (*done.kept_lines, *done.notes):
        console.print(as_written(note), soft_wrap=True)
    console.print(as_written(done.verdict), soft_wrap=True)


def _cells(compared: Compared) -> tuple[str, ...]:
    smallest = compared.smallest
    could = f"{smallest:.3f}" if isinstance(smallest, float) else "-"
    repeats = f" x {compared.num_repeats}" if compared.num_repeats > 1 else ""
    return (
        f"{compared.first:.3f}",
        f"{compared.second:.3f}",
        f"{compared.by:+.3f}",
        f"{compared.p_holm:.2g}",
        f"{compared.by.n}{repeats}",
        could,
        compared.verdict,
    )
