"""The result of a run: a folder that plain transformers loads, with its model card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.config import TrainConfig
from holdfast.training import durable
from holdfast.training.card import model_card
from holdfast.training.run_directory import RunDirectory
from holdfast.training.saving import write_model
from holdfast.training.trainer import StreamTrainer


def write_result(
    trainer: StreamTrainer, run: RunDirectory, config: TrainConfig, data: Sequence[Mapping[str, Any]]
) -> None:
    """Write ``run/model``, whole or not at all. Adapters are merged where asked, or where the vocabulary grew:
    an adapter alone cannot be put on a base model with fewer rows.
    """
    partial = run.path / ".model"
    merge = config.lora is not None and (config.lora.merge or bool(config.model.new_tokens))
    if trainer.accelerator.is_main_process:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
    try:
        _write(trainer, run, config, data, partial, merge)
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


def _write(
    trainer: StreamTrainer,
    run: RunDirectory,
    config: TrainConfig,
    data: Sequence[Mapping[str, Any]],
    partial: Path,
    merge: bool,
) -> None:
    write_model(trainer, partial, merge=merge)
    if trainer.accelerator.is_main_process:
        card = model_card(config, data, _last_row(run.steps))
        durable.write_file(partial / "README.md", card.encode())
        _put_in_place(partial, run.model)


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
