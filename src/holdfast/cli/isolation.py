"""`holdfast doctor --isolation`: the attack list against every tier of this machine, and what got through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from holdfast.cli.output import write_json
from holdfast.config.errors import InputError
from holdfast.judging.sandbox import CONFINED, Sandboxes, Tier
from holdfast.judging.sandbox.hostile import HOSTILE, Outcome, run_hostile


def show_isolation(json: Path | None) -> None:
    """Exit code 1 where something got through, or where no tier works."""
    with Progress(console=Console(stderr=True), transient=True) as bar:
        reports = [_report(tier, bar) for tier in CONFINED]
    if not write_json(json, reports):
        table = Table("tier", "state", "hostile candidates", "got through", box=None, header_style="bold")
        for report in reports:
            through = ", ".join(report["got_through"]) or ("none" if report["works"] else "")
            table.add_row(report["tier"], report["state"], str(report["num_run"]), through)
        Console(highlight=False).print(table)
    if not any(report["works"] for report in reports) or any(report["got_through"] for report in reports):
        raise typer.Exit(1)


def _report(tier: Tier, bar: Progress) -> dict[str, Any]:
    outcomes: list[Outcome] = []
    state = "works"
    try:
        sandboxes = Sandboxes([tier])
    except InputError as error:
        state = str(error)
    else:
        outcomes = list(bar.track(run_hostile(sandboxes, HOSTILE), total=len(HOSTILE), description=str(tier)))
        sandboxes.close()
    return {
        "tier": str(tier),
        "works": state == "works",
        "state": state,
        "num_run": len(outcomes),
        "got_through": [outcome.name for outcome in outcomes if outcome.got_through],
        "outcomes": [outcome._asdict() for outcome in outcomes],
    }
