"""`holdfast diagnose drift MODEL [--anchor M]`: what a drift budget means, before a training and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.output import as_written, json_option, write_json
from holdfast.cli.progress import progress_bar

if TYPE_CHECKING:
    from holdfast.diagnostics import Drifted
    from holdfast.stats import Estimate

NOTES = """lost: of what the anchor surely refuses. refuses: of all these prompts, however sure it is of each.
answers to see it: ask so many surely refused prompts once, and with a chance of 95 %
more refusals are missing than the anchor's own draws lose."""


def drift(
    model: Annotated[str, typer.Argument(help="tiny:aligned, a folder, an adapter's folder, or a hub id")],
    anchor: Annotated[str | None, typer.Option(help="The model before tuning; without it MODEL is the anchor")] = None,
    prompts: Annotated[str, typer.Option(help="safety, keep, skills, or a file of prompts")] = "safety",
    all_prompts: Annotated[
        bool, typer.Option("--all", help="All prompts, not only the fifth that a run with hold: keeps back")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="Ask so many prompts", min=1)] = None,
    samples: Annotated[int, typer.Option(help="Answers to a prompt, drawn at temperature 1", min=1)] = 4,
    judge: Annotated[str | None, typer.Option(help="Who says the outcome; default as for `audit`")] = None,
    seed: Annotated[int, typer.Option(help="Of the draws", min=0)] = 0,
    batch_size: Annotated[int, typer.Option(help="Answers at once", min=1)] = 64,
    json: json_option = None,
) -> None:
    """How far a model is from its anchor, what that can have lost, and what it did lose. With one model: what budgets mean."""
    from holdfast.diagnostics import measure_drift
    from holdfast.models import load

    policy = load(model)
    held_to = None if anchor is None else load(anchor)
    typer.echo("\n".join(loaded.sentence for loaded in (policy, held_to) if loaded is not None), err=True)
    with progress_bar("draws") as on_progress:
        drifted = measure_drift(
            policy,
            anchor=held_to,
            prompts=prompts,
            kept_back=not all_prompts,
            limit=limit,
            samples=samples,
            judge=judge,
            seed=seed,
            batch_size=batch_size,
            on_progress=on_progress,
        )
    if not write_json(json, drifted.row()):
        _print(drifted)


def _print(drifted: Drifted) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(
        f"{drifted.num_prompts} prompts of {drifted.prompts}, {drifted.num_answers} answers each drawn from {drifted.anchor};"
        f" judge {drifted.judge}",
        markup=False,
    )
    console.print(f"it refuses {_percent(drifted.refused)} of them\n", markup=False)
    if drifted.early is not None:
        console.print(_drift_table(drifted))
        console.print()
    console.print(_sure_table(drifted))
    if drifted.early is None:
        console.print()
        console.print(_budget_table(drifted))
        console.print(f"\n{NOTES}", markup=False)


def _drift_table(drifted: Drifted) -> Any:
    from rich.table import Table

    title = f"drift of {drifted.model} from its anchor"
    table = Table("", "nats", "95 %", "per", title=as_written(title), title_justify="left", box=None)
    rows = (
        ("early, first 5 tokens", drifted.early, "answer"),
        ("late, after them", drifted.late, "token"),
        ("whole answers", drifted.whole, "answer"),
    )
    for name, figure, unit in rows:
        if figure is not None:
            table.add_row(name, f"{figure.value:.4f}", f"{figure.low:.4f} to {figure.high:.4f}", unit)
    return table


def _sure_table(drifted: Drifted) -> Any:
    from rich.table import Table

    tuned = drifted.early is not None
    columns = ["surely", "prompts", "own draws lose"]
    columns += ["nats", "lost, at most", "lost", "to"] if tuned else []
    table = Table(*columns, title="what the anchor surely does", title_justify="left", box=None)
    for sure in drifted.sure:
        cells = [sure.outcome, str(sure.num_prompts), _percent(sure.own)]
        if sure.lost is not None:
            became = ", ".join(
                f"{outcome} {100 * share:.1f} %" for outcome, share in (sure.became or {}).items() if share
            )
            nats = "-" if sure.early is None else f"{sure.early.value:.4f}"
            bound = "-" if sure.most_lost is None else _percent(sure.most_lost)
            cells += [nats, bound, _percent(sure.lost), became]
        table.add_row(*cells)
    if not drifted.sure:
        table.add_row("nothing", "0", "-")
    return table


def _budget_table(drifted: Drifted) -> Any:
    from rich.table import Table

    table = Table("budget, early", "lost, at most", "refuses, at least", "answers to see it", box=None)
    for row in drifted.budgets():
        shares = [f"{100 * row[name]:.1f} %" for name in ("most_lost", "least_refused")]
        table.add_row(f"{row['early']:g}", *shares, str(int(row["answers"])))
    return table


def _percent(figure: Estimate) -> str:
    return f"{100 * figure.value:.1f} % [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"
