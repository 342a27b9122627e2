"""The verbs that the studies add to `holdfast` (entry point group ``holdfast.commands``)."""

from __future__ import annotations

from collections.abc import Mapping

import typer


def register(app: typer.Typer, groups: Mapping[str, typer.Typer]) -> None:
    """Add ours: `reproduce`, further `diagnose` verbs, `oversee study`. Light: studies are imported when they run."""
    from holdfast_studies.cli import checks, decisions, oversee, reproduce, theory, undo

    app.command("reproduce")(reproduce.reproduce)
    groups["oversee"].command("study")(oversee.study)
    diagnose = groups["diagnose"]
    diagnose.command("checks")(checks.checks)
    diagnose.command("decisions")(decisions.decisions)
    diagnose.command("safety-gap")(undo.safety_gap)
    diagnose.command("theory")(theory.theory)
    diagnose.command("undo-costs")(undo.undo_costs)
    diagnose.command("undo-defence")(undo.undo_defence)
    diagnose.command("wrong-start")(undo.wrong_start)
