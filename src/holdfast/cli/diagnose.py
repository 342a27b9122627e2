"""`holdfast diagnose ...`: what a model's answers and gradients say about how it came to them."""

from __future__ import annotations

import typer

from holdfast.cli import diagnose_attribution, diagnose_calibration, diagnose_drift

app = typer.Typer(
    no_args_is_help=True, help="Calibration of decisions, gradients by role, drift from an anchor, and more."
)
app.command("attribution")(diagnose_attribution.attribution)
app.command("calibration")(diagnose_calibration.calibration)
app.command("drift")(diagnose_drift.drift)
