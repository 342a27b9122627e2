"""The end of a run: ``model/`` as plain transformers loads it, its model card, and ``finished.json``.

A run that has already finished is skipped. That check comes before the model is loaded, because the anchor's answers were
deleted when the run ended."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.config import InputError, TrainConfig, dump_config
from holdfast.data import atomic_text
from holdfast.data.default_prompts import PREFIX
from holdfast.data.model_card import Training, card_text
from holdfast.training.anchor_answers import FOLDER, prompt_file
from holdfast.training.checkpoints import durable
from holdfast.training.checkpoints.folders import newest_good, sha256_file, step_of
from holdfast.training.checkpoints.state import write_model
from holdfast.training.run_directory import RunDirectory
from holdfast.training.streams import read_data
from holdfast.training.trainer import StreamTrainer


def write_result(trainer: StreamTrainer, config: TrainConfig, data: Sequence[Mapping[str, Any]]) -> None:
    """Write ``run/model``, whole or not at all. Adapters are merged where asked, or where the vocabulary grew:
    an adapter alone cannot be put on a base model with fewer rows.
    """
    run = trainer.run
    partial = run.path / ".model"
    if trainer.accelerator.is_main_process:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
    try:
        _write(trainer, config, data, partial)
    except Exception as error:
        system = durable.os_error(error)
        if system is None:
            raise
        shutil.rmtree(partial, ignore_errors=True)
        advice = "free some space" if durable.is_full(system) else "mend this"
        raise durable.CheckpointError(
            f"{run.model}: not written: {system.strerror}; the last checkpoint is good; {advice}, then run the same command"
        ) from error
    trainer.accelerator.wait_for_everyone()


def _write(trainer: StreamTrainer, config: TrainConfig, data: Sequence[Mapping[str, Any]], partial: Path) -> None:
    merge = config.lora is not None and (config.lora.merge or bool(config.model.new_tokens))
    write_model(trainer, partial, merge=merge)
    if trainer.accelerator.is_main_process:
        is_adapter = config.lora is not None and not merge
        last = _last_row(trainer.run.steps)
        card = card_text(Training(config.run, config.model.name, dump_config(config), data, last, is_adapter))
        durable.write_file(partial / "README.md", card.encode())
        _put_in_place(partial, trainer.run.model)


def _put_in_place(partial: Path, final: Path) -> None:
    """Synced before it is renamed; the model it replaces goes last. After a kill in between, the same command ends it."""
    for file in partial.iterdir():
        durable.sync(file)
    durable.sync(partial)
    old = final.with_name(".old-model")
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    partial.rename(final)
    durable.sync(final.parent)
    shutil.rmtree(old, ignore_errors=True)


def _last_row(steps: Path) -> dict[str, Any]:
    lines = steps.read_text(encoding="utf-8").splitlines() if steps.exists() else []
    row: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return row


REPORTED = ("microscope.json", "depth.json", "hold.json")


def write_finished(run: RunDirectory, step: int) -> None:
    """Write ``finished.json``: the sha256 of every file that the run has made. The last thing that a run writes."""
    card = run.model / "README.md"  # left out: `holdfast report --card` writes it anew after an audit
    paths = [path for path in run.model.rglob("*") if path.is_file() and path != card]
    paths += [run.path / name for name in REPORTED if (run.path / name).is_file()]
    files = {path.relative_to(run.path).as_posix(): sha256_file(path) for path in sorted(paths)}
    with atomic_text(run.finished) as file:
        json.dump({"step": step, "files": files}, file, indent=1)
        file.write("\n")


def last_checkpoint(config: TrainConfig, run: RunDirectory) -> Path | None:
    """The last checkpoint of a run that has finished and whose files are all unchanged; None for any other run."""
    if any(stream.vet is not None or stream.data.startswith(PREFIX) for stream in config.streams):
        return _after_asking(config, run)
    if not run.data.is_file() or not run.finished.is_file():
        return None
    known = json.loads(run.data.read_text(encoding="utf-8"))
    if [entry["fingerprint"] for entry in known] != [read_data(stream).fingerprint for stream in config.streams]:
        return None  # the run itself says what is different, and refuses
    return _whole(run)


def _whole(run: RunDirectory) -> Path | None:
    """The last checkpoint, if it and every file that the run made are as they were at its end."""
    try:
        finished = json.loads(run.finished.read_text(encoding="utf-8"))
        step, files = finished["step"], finished["files"]
        if any(sha256_file(run.path / name) != digest for name, digest in files.items()):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    checkpoint, damaged = newest_good(run.checkpoints)
    return checkpoint if checkpoint and not damaged and step_of(checkpoint) == step else None


def _after_asking(config: TrainConfig, run: RunDirectory) -> Path | None:
    """The last checkpoint of a finished run that asked its anchor, whose answers are deleted last; None if a file has changed.

    Raises ``InputError`` when the rows of a stream have changed since.
    """
    if not run.model.is_dir() or not run.data.is_file() or (run.path / FOLDER).exists():
        return None
    known = json.loads(run.data.read_text(encoding="utf-8"))
    # Not strict: what was held of vetted rows comes behind the config's own streams.
    for stream, entry in zip(config.streams, known, strict=False):
        if stream.data.startswith(PREFIX):
            is_other = "prompts" in entry and prompt_file(stream).get("prompts", entry["prompts"]) != entry["prompts"]
        else:
            is_other = read_data(stream).fingerprint != entry.get("vetted from", entry["fingerprint"])
        if is_other:
            raise InputError(f"{run.data}: the rows of {stream.data} were others; choose another run:, or restore them")
    return _whole(run) if run.finished.is_file() else newest_good(run.checkpoints)[0]
