"""`holdfast diagnose ...`: what a model's answers and gradients say about how it came to them."""

from __future__ import annotations

import typer
from holdfast_studies.cli import checks as diagnose_checks
from holdfast_studies.cli import decisions as diagnose_decisions
from holdfast_studies.cli import safety_gap as diagnose_safety_gap
from holdfast_studies.cli import theory as diagnose_theory
from holdfast_studies.cli import undo_costs as diagnose_undo_costs
from holdfast_studies.cli import wrong_start as diagnose_wrong_start

from holdfast.cli import diagnose_attribution, diagnose_calibration

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
