"""Running a matrix with a progress bar, and showing it: what `demo` and `attack` share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.attacks import Attack, Scale, find_attack, run_matrix, variants
from holdfast.attacks.choosing import chosen
from holdfast.attacks.defences import find_defence
from holdfast.attacks.matrix_table import MEASURE_TITLES, cell_text, legend, ran_alone, rows_of
from holdfast.attacks.paired import Paired, paired_tests
from holdfast.attacks.real_grid import find_real_attack, find_real_defence, real_scale
from holdfast.attacks.results_page import results_page
from holdfast.attacks.worst import Worst, worst_cases
from holdfast.cli.output import write_json
from holdfast.cli.progress import progress_bar
from holdfast.config.matrix import MatrixConfig
from holdfast.data import atomic_text
from holdfast.records import Cell, Measure
from holdfast.reports import write_report

WIDTH = 140  # of tables that go into a file


def run_and_show(config: MatrixConfig, json: Path | None, page: Path | None = None) -> None:
    """Run what is missing, print the tables or the JSON, write the report, and a page of results if asked."""
    try:
        cells = _run(config)
    except KeyboardInterrupt:
        print(
            f"holdfast: interrupted; {config.run} keeps every finished cell, and the same command goes on",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None
    tests, worst = paired_tests(cells, asked_again=config.real is not None), worst_cases(cells)
    run = Path(config.run)
    write_json(run / "paired.json", [asdict(test) for test in tests])
    write_json(run / "worst.json", [asdict(each) for each in worst])
    report = write_report(run)
    if page is not None:
        command = shlex.join(["holdfast", *sys.argv[1:]])
        with atomic_text(page) as file:
            file.write(results_page(cells, tests, worst, config, command))
    if not write_json(json, _json_rows(cells, tests)):
        _show(cells, tests, worst, config)
        print(f"report: {report}" + (f"\npage: {page}" if page else ""))
    if failed := sum(cell.status == "failed" for cell in cells):
        print(f"holdfast: {failed} of {len(cells)} cells failed; the same command runs them again", file=sys.stderr)
        raise typer.Exit(1)


def _run(config: MatrixConfig) -> list[Cell]:
    attacks = _attacks(config)
    defences = [find_real_defence(name) if config.real else find_defence(name) for name in config.defences]
    with progress_bar("matrix", stays=True) as on_progress:
        on_progress(0, len(attacks) * len(defences) * len(config.seeds))

        def on_cell(cell: Cell, done: int, total: int) -> None:
            on_progress(done, total, f"{cell.attack} x {cell.defence}")

        return run_matrix(
            attacks,
            defences,
            config.seeds,
            config.run,
            scale=_scale(config),
            num_workers=config.workers,
            engine=config.engine,
            on_cell=on_cell,
        )


def _scale(config: MatrixConfig) -> Scale:
    if config.real:
        return real_scale(config.model, config.real)
    return Scale(model=config.model, num_requests=config.num_requests, part=config.requests)


def _attacks(config: MatrixConfig) -> list[Attack]:
    attacks = [find_real_attack(name) if config.real else find_attack(name) for name in config.attacks]
    if config.adaptive is None:
        return attacks
    lrs, epochs = config.adaptive.lrs, config.adaptive.epochs
    return [variant for attack in attacks for variant in variants(attack, lrs=lrs, epochs=epochs)]


def _json_rows(cells: Sequence[Cell], tests: Sequence[Paired]) -> list[dict[str, Any]]:
    """The cells, each with the p-values of its attack and defence (all seeds together)."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for test in tests:
        found.setdefault((test.attack, test.defence), {}).setdefault(test.other, {})[test.measure] = test.p_holm
    return [{**cell.row(), "p_against": found.get((cell.attack, cell.defence), {})} for cell in cells]


def _show(cells: Sequence[Cell], tests: Sequence[Paired], worst: Sequence[Worst], config: MatrixConfig) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    for measure, title in MEASURE_TITLES.items():
        console.print(measure_table(cells, tests, measure, f"{title}, {len(config.seeds)} seeds pooled, 95 % interval"))
        console.print()
    if note := legend(tests, asked_again=config.real is not None):
        console.print(f"{note}\n", markup=False)
    for each in worst:
        text = f"worst of {each.num_variants} variants of {each.attack} on {each.defence}: {cell_text(each.asr)}"
        console.print(f"{text}, chosen on other requests: {', '.join(each.chosen)}", markup=False)
    for defence, (name, value) in chosen(cells).items():
        console.print(f"{defence}: chosen {name}, cost {value:.3f}", markup=False)
    if again := ran_alone(cells):
        console.print(again, markup=False)
    for cell in cells:
        if cell.status == "failed":
            console.print(f"failed: {cell.attack} x {cell.defence}, seed {cell.seed}: {cell.reason}", markup=False)


def measure_table(cells: Sequence[Cell], tests: Sequence[Paired], measure: Measure, title: str) -> Table:
    """Defences down, attacks across."""
    attacks, rows = rows_of(cells, tests, measure)
    table = Table("", *attacks, title=title, title_justify="left", box=None, header_style="bold")
    for defence, texts in rows:
        table.add_row(defence, *map(escape, texts))
    return table
