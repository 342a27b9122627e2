"""A run that has ended is known before a model is loaded, or an anchor asked: what that answered was deleted with the end."""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.config import InputError, TrainConfig
from holdfast.data import atomic_text
from holdfast.data.default_prompts import PREFIX
from holdfast.training.anchor_answers import FOLDER
from holdfast.training.checkpoints import newest_good, sha256_file, step_of
from holdfast.training.run_directory import RunDirectory
from holdfast.training.streams import read_data

REPORTED = ("microscope.json", "depth.json")


def write_finished(run: RunDirectory, step: int) -> None:
    """What a run has made, by file: the last thing that it writes."""
    card = run.model / "README.md"  # left out: `holdfast report --card` writes it anew after an audit
    made = [path for path in run.model.rglob("*") if path.is_file() and path != card]
    made += [run.path / name for name in REPORTED if (run.path / name).is_file()]
    files = {path.relative_to(run.path).as_posix(): sha256_file(path) for path in sorted(made)}
    with atomic_text(run.finished) as file:
        json.dump({"step": step, "files": files}, file, indent=1)
        file.write("\n")


def last_checkpoint(config: TrainConfig, run: RunDirectory, *, watched: bool = False) -> Path | None:
    """Of a run that has ended and lost nothing since; None for every other, which goes on from what is left of it.

    ``watched``: by callbacks, which want to see the model at its end; then only a run that cannot ask again is not gone into.
    """
    if any(stream.vet is not None or stream.data.startswith(PREFIX) for stream in config.streams):
        return _after_asking(config, run)
    if watched or not run.data.is_file() or not run.finished.is_file():
        return None
    known = json.loads(run.data.read_text(encoding="utf-8"))
    if [entry["fingerprint"] for entry in known] != [read_data(stream).fingerprint for stream in config.streams]:
        return None  # the run itself says what is different, and refuses
    return _whole(run)


def _whole(run: RunDirectory) -> Path | None:
    """The last checkpoint, if it and every file that the run made are as they were at its end."""
    try:
        made = json.loads(run.finished.read_text(encoding="utf-8"))
        step, files = made["step"], made["files"]
        if any(sha256_file(run.path / name) != digest for name, digest in files.items()):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    checkpoint, damaged = newest_good(run.checkpoints)
    return checkpoint if checkpoint and not damaged and step_of(checkpoint) == step else None


def _after_asking(config: TrainConfig, run: RunDirectory) -> Path | None:
    """Of a run that asked its anchor. Its answers are the last thing to go; rows that have changed since are refused."""
    if not run.model.is_dir() or not run.data.is_file() or (run.path / FOLDER).exists():
        return None
    known = json.loads(run.data.read_text(encoding="utf-8"))
    # Not strict: what was held of vetted rows comes behind the config's own streams.
    for stream, entry in zip(config.streams, known, strict=False):
        then = entry.get("vetted from", entry["fingerprint"])
        if not stream.data.startswith(PREFIX) and read_data(stream).fingerprint != then:
            raise InputError(f"{run.data}: the rows of {stream.data} were others; choose another run:, or restore them")
    return newest_good(run.checkpoints)[0]
