"""Running a matrix with a progress bar, and showing it: what `demo` and `attack` share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from holdfast.attacks import Matrix, Paired, chosen, results_page, run_config
from holdfast.attacks.matrix_table import COUNTED, beside, cell_text, legend, ran_alone, rows_of, shown_measures
from holdfast.cli.output import write_json
from holdfast.cli.progress import progress_bar
from holdfast.config.matrix import MatrixConfig
from holdfast.data import atomic_text
from holdfast.records import Cell, Measure, judged_by
from holdfast.reports import write_report

WIDTH = 140  # of tables that go into a file


def run_and_show(config: MatrixConfig, json: Path | None, page: Path | None = None) -> None:
    """Run what is missing, print the tables or the JSON, write the report, and a page of results if asked."""
    try:
        matrix = _run(config)
    except KeyboardInterrupt:
        print(
            f"holdfast: interrupted; {config.run} keeps every finished cell, and the same command goes on",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None
    report = write_report(matrix.run)
    if page is not None:
        command = shlex.join(["holdfast", *sys.argv[1:]])
        with atomic_text(page) as file:
            file.write(results_page(matrix.cells, matrix.tests, matrix.worst, config, command))
    if not write_json(json, matrix.rows()):
        _show(matrix, config)
        print(f"report: {report}" + (f"\npage: {page}" if page else ""))
    if matrix.failed:
        line = f"{len(matrix.failed)} of {len(matrix.cells)} cells failed; the same command runs them again"
        print(f"holdfast: {line}", file=sys.stderr)
        raise typer.Exit(1)


def _run(config: MatrixConfig) -> Matrix:
    with progress_bar("matrix", stays=True) as on_progress:

        def on_cell(cell: Cell, done: int, total: int) -> None:
            on_progress(done, total, f"{cell.attack} x {cell.defence}")

        def on_trial(name: str, done: int, total: int) -> None:
            on_progress(done, total, f"search: {name}")

        return run_config(config, on_cell=on_cell, on_trial=on_trial)


def _show(matrix: Matrix, config: MatrixConfig) -> None:
    cells, tests = matrix.cells, matrix.tests
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    seeds = "1 seed" if len(config.seeds) == 1 else f"{len(config.seeds)} seeds pooled"
    for measure, title in shown_measures(cells):
        console.print(measure_table(cells, tests, measure, f"{title}, {seeds}, 95 % interval"))
        console.print()
    if note := legend(cells, tests):
        console.print(f"{note}\n", markup=False)
    if judged := judged_by(cells):
        console.print(f"{judged}\n", markup=False)
    for case in matrix.worst:
        head = f"worst of {case.num_variants} variant{'s' * (case.num_variants > 1)} of {case.attack} on {case.defence}"
        rate = f"{cell_text(case.asr).strip()} {COUNTED[case.tells_outcomes]}{beside(case.missed, case.kept)}"
        console.print(f"{head}: {rate}, chosen on other requests: {', '.join(case.chosen)}", markup=False)
    for searched in matrix.found:
        for line in searched.lines():
            console.print(line, markup=False, soft_wrap=True)
    for defence, (name, value) in chosen(cells).items():
        console.print(f"{defence}: chosen {name}, cost {value:.3f}", markup=False)
    if again := ran_alone(cells):
        console.print(again, markup=False)
    for cell in cells:
        if cell.status == "failed":
            console.print(f"failed: {cell.attack} x {cell.defence}, seed {cell.seed}: {cell.reason}", markup=False)


def measure_table(cells: Sequence[Cell], tests: Sequence[Paired], measure: Measure, title: str) -> Group:
    """Defences down, attacks across; the title as a line of its own, for a table's own title is no wider than the table."""
    attacks, rows = rows_of(cells, tests, measure)
    table = Table("", *attacks, box=None, header_style="bold")
    for defence, texts in rows:
        table.add_row(defence, *map(escape, texts))
    return Group(Text(title, style="table.title"), table)
