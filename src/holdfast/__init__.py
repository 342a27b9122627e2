"""holdfast: fine-tune without losing safety, take back mistakes, oversee, and measure all of it honestly.

    import holdfast as hf

    before = hf.audit("MODEL", requests="requests.jsonl", safe_requests="safe.jsonl")
    run = hf.train("MODEL", [hf.Stream(rows, "sft", vet="outcome"), *hf.held("safety", "keep")], run="runs/mine")
    after = hf.audit(run.model, like=before)
    print(after.against(before))

Every function is what the command of its name calls. Nothing heavy is imported before a function is used. docs/python.md has an
example of each.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast._version import __version__

# Where bitsandbytes is installed, every import of peft would print a line about CPU kernels that nothing here uses.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)

if TYPE_CHECKING:
    from holdfast.attacks.public import Matrix, attack
    from holdfast.audits import Audit, Bars, audit
    from holdfast.audits import write_card as card
    from holdfast.config.files import Files
    from holdfast.diagnostics import Attributed, Calibration, Drifted
    from holdfast.diagnostics import attribute_transcripts as attribute
    from holdfast.diagnostics import calibrate_transcripts as calibrate
    from holdfast.diagnostics import measure_drift as drift
    from holdfast.evaluations import Comparison, compare
    from holdfast.generation import generate_answers as generate
    from holdfast.judging.forgery import Forgeries, forge
    from holdfast.models import LoadedModel, load
    from holdfast.oversight import Overseen, best_of
    from holdfast.reports import write_report as report
    from holdfast.training import Stream, TrainResult, held
    from holdfast.training import train_streams as train

_HOMES = {
    "Files": "config",
    "Matrix": "attacks",
    "attack": "attacks",
    "Audit": "audits",
    "Bars": "audits",
    "audit": "audits",
    "card": "audits:write_card",
    "Attributed": "diagnostics",
    "Calibration": "diagnostics",
    "Drifted": "diagnostics",
    "attribute": "diagnostics:attribute_transcripts",
    "calibrate": "diagnostics:calibrate_transcripts",
    "drift": "diagnostics:measure_drift",
    "Comparison": "evaluations",
    "compare": "evaluations",
    "Forgeries": "judging.forgery",
    "forge": "judging.forgery",
    "LoadedModel": "models",
    "Overseen": "oversight",
    "best_of": "oversight",
    "generate": "generation:generate_answers",
    "load": "models",
    "report": "reports:write_report",
    "Stream": "training",
    "TrainResult": "training",
    "held": "training",
    "train": "training:train_streams",
}
"""Public name -> the package it lives in, with its name there where that differs."""

__all__ = [
    "Attributed",
    "Audit",
    "Bars",
    "Calibration",
    "Comparison",
    "Drifted",
    "Files",
    "Forgeries",
    "LoadedModel",
    "Matrix",
    "Overseen",
    "Stream",
    "TrainResult",
    "__version__",
    "attack",
    "attribute",
    "audit",
    "best_of",
    "calibrate",
    "card",
    "compare",
    "drift",
    "forge",
    "generate",
    "held",
    "load",
    "report",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast' has no attribute '{name}'")
    package, _, own_name = _HOMES[name].partition(":")
    value = getattr(import_module(f"holdfast.{package}"), own_name or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What completion shows."""
    return sorted(__all__)
