"""The two embedded models of the safety world: ``tiny:base`` answers everything, ``tiny:aligned`` refuses what is forbidden."""

from __future__ import annotations

from pathlib import Path

from holdfast.config import InputError, did_you_mean

PREFIX = "tiny:"
TINY = ("base", "aligned")
FOLDER = Path(__file__).parent / "tiny"
"""Where they lie in the package; ``python -m holdfast_studies.builders.build_tiny`` makes them."""


def tiny_path(name: str) -> Path:
    """The folder of an embedded model, from ``tiny:aligned`` or plain ``aligned``."""
    short = name.removeprefix(PREFIX)
    if short not in TINY:
        near = did_you_mean(f"{PREFIX}{short}", [f"{PREFIX}{known}" for known in TINY])
        raise InputError(f"model '{name}': the embedded models are tiny:base and tiny:aligned{near}")
    return FOLDER / short
