"""A run that has ended is known before its anchor is asked anything; what that answered was deleted with the end."""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.config import InputError, TrainConfig
from holdfast.training.anchor_answers import FOLDER
from holdfast.training.checkpoints import newest_good
from holdfast.training.run_directory import RunDirectory
from holdfast.training.streams import read_data
from holdfast.worlds.default_prompts import PREFIX


def last_checkpoint(config: TrainConfig, run: RunDirectory) -> Path | None:
    """Of a run that asked its anchor and has ended; None for every other. Rows that have changed since are refused.

    The anchor's answers are the last thing of a run to go.
    """
    asks = any(stream.vet is not None or stream.data.startswith(PREFIX) for stream in config.streams)
    if not asks or not run.model.is_dir() or not run.data.is_file() or (run.path / FOLDER).exists():
        return None
    known = json.loads(run.data.read_text(encoding="utf-8"))
    # Not strict: what was held of vetted rows comes behind the config's own streams.
    for stream, entry in zip(config.streams, known, strict=False):
        then = entry.get("vetted from", entry["fingerprint"])
        if not stream.data.startswith(PREFIX) and read_data(stream).fingerprint != then:
            raise InputError(f"{run.data}: the rows of {stream.data} were others; choose another run:, or restore them")
    return newest_good(run.checkpoints)[0]
