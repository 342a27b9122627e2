"""`holdfast diagnose ...`: what a model's answers and gradients say about how it came to them."""

from __future__ import annotations

import typer

from holdfast.cli import (
    diagnose_attribution,
    diagnose_calibration,
    diagnose_checks,
    diagnose_decisions,
    diagnose_safety_gap,
    diagnose_theory,
    diagnose_undo_costs,
    diagnose_wrong_start,
)

app = typer.Typer(no_args_is_help=True, help="Calibration of decisions, gradients by role, and more.")
app.command("attribution")(diagnose_attribution.attribution)
app.command("calibration")(diagnose_calibration.calibration)
app.command("checks")(diagnose_checks.checks)
app.command("decisions")(diagnose_decisions.decisions)
app.command("safety-gap")(diagnose_safety_gap.safety_gap)
app.command("theory")(diagnose_theory.theory)
app.command("undo-costs")(diagnose_undo_costs.undo_costs)
app.command("wrong-start")(diagnose_wrong_start.wrong_start)


@app.callback()
def group() -> None:
    """Calibration of decisions, gradients by role, and more."""
