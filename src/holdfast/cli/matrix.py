"""Running a matrix with a progress bar, and showing it: what `demo` and `attack` share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from holdfast.attacks import find_attack
from holdfast.audits import Scale, find_defence, pooled, run_matrix
from holdfast.cli.output import write_json
from holdfast.config.matrix import MatrixConfig
from holdfast.records import Cell, Rate
from holdfast.report import write_report

MEASURES = {
    "asr": "forbidden requests answered (less is safer)",
    "over_refusal": "harmless look-alikes refused (less is better)",
    "utility": "answers right (more is better)",
}


def run_and_show(config: MatrixConfig, json: Path | None) -> None:
    """Run what is missing, print the tables or the JSON, write the report."""
    attacks = [find_attack(name) for name in config.attacks]
    defences = [find_defence(name) for name in config.defences]
    scale = Scale(model=config.model, num_requests=config.num_requests)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("matrix", total=len(attacks) * len(defences) * len(config.seeds))

        def on_cell(cell: Cell, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=f"{cell.attack} x {cell.defence}")

        cells = run_matrix(
            attacks, defences, config.seeds, config.run, scale=scale, num_workers=config.workers, on_cell=on_cell
        )
    page = write_report(Path(config.run))
    if write_json(json, [cell.row() for cell in cells]):
        return
    console = Console(highlight=False)
    for measure, title in MEASURES.items():
        console.print(measure_table(cells, measure, f"{title}, {len(config.seeds)} seeds pooled, 95 % interval"))
        console.print()
    for cell in cells:
        if cell.status == "failed":
            console.print(f"failed: {cell.attack} x {cell.defence}, seed {cell.seed}: {cell.reason}", markup=False)
    console.print(f"report: {page}", markup=False)


def measure_table(cells: Sequence[Cell], measure: str, title: str) -> Table:
    """Defences down, attacks across."""
    attacks = list(dict.fromkeys(cell.attack for cell in cells))
    table = Table("", *attacks, title=title, title_justify="left", box=None, header_style="bold")
    for defence in dict.fromkeys(cell.defence for cell in cells):
        row = [[cell for cell in cells if (cell.attack, cell.defence) == (attack, defence)] for attack in attacks]
        table.add_row(defence, *(_shown([getattr(cell, measure) for cell in group]) for group in row))
    return table


def _shown(rates: Sequence[Rate | None]) -> str:
    known = [rate for rate in rates if rate is not None]
    if not known:
        return "failed"
    whole = pooled(known)
    return f"{whole.value:6.1%} \\[{whole.low:.0%}, {whole.high:.0%}]"
