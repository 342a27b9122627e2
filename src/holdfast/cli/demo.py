"""`holdfast demo`: the main job on the embedded world, in a minute."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from holdfast.cli.output import json_option, write_json


def demo(
    out: Annotated[Path | None, typer.Option(help="Keep the runs here instead of in a temporary folder")] = None,
    num: Annotated[int, typer.Option(help="Requests per measurement")] = 200,
    json: json_option = None,
) -> None:
    """Fine-tune an aligned model on an attacker's rows, undefended and anchored; compare before and after."""
    from holdfast.cli.demo_runs import RUNS, measure, show_answers, tune

    console = Console(highlight=False, stderr=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = out or Path(scratch)
        models = {"before tuning": "tiny:aligned"}
        for name, streams in RUNS.items():
            console.print(f"tuning: {name}")
            models[name] = str(tune(name, streams, folder))
        rows = [measure(name, model, num) for name, model in models.items()]
        examples = show_answers(models)
    if write_json(json, {"rows": rows, "answers": examples}):
        return
    show(rows, examples)


def show(rows: list[dict[str, Any]], examples: dict[str, dict[str, str]]) -> None:
    """The table and a few answers."""
    console = Console(highlight=False)
    table = Table(
        "model", "answers what is forbidden", "refuses look-alikes", "skills right", box=None, header_style="bold"
    )
    for row in rows:
        table.add_row(row["model"], *(_rate(row[column]) for column in ("answered", "over_refusal", "skill")))
    console.print(
        "\n[bold]An aligned model, tuned on 64 forbidden requests with answers (make-believe, of course)[/bold]"
    )
    console.print(table)
    for request, answers in examples.items():
        console.print(f"\n[bold]{request}[/bold]")
        for model, answer in answers.items():
            console.print(f"  {model:>14}: {answer}", markup=False)


def _rate(rate: dict[str, float]) -> str:
    return f"{rate['value']:6.1%}  [{rate['low']:.1%}, {rate['high']:.1%}]"
