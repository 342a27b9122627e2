"""Attack and defence together become runs of the one trainer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.attacks import Attack
from holdfast.audits.defences import Defence, OwnStream, Repair
from holdfast.audits.defender_rows import in_the_dress_of, own_rows
from holdfast.audits.interpolation import interpolated
from holdfast.audits.scale import Scale
from holdfast.config import TrainConfig
from holdfast.records import Trace, write_traces
from holdfast.training import train
from holdfast.worlds import SafetyWorld


def tune(attack: Attack, defence: Defence, seed: int, scale: Scale, world: SafetyWorld, folder: Path) -> str:
    """The model after the attack's rows have been learned in the defence's way; everything is written under ``folder``."""
    if not defence.tune:
        return scale.model
    rows = attack.data.rows(world, seed)
    model = _train(training_config(attack, defence, rows, seed, scale, world, folder))
    if defence.interpolate:
        model = str(interpolated(model, scale.model, defence.interpolate, folder / "interpolated"))
    if defence.repair:
        model = _train(repair_config(model, defence.repair, rows, seed, scale, world, folder))
    return model


def training_config(
    attack: Attack, defence: Defence, rows: Sequence[Trace], seed: int, scale: Scale, world: SafetyWorld, folder: Path
) -> TrainConfig:
    """The task's stream first; every defence takes the same number of steps over it."""
    write_traces(folder / "task.jsonl", rows)
    task = {
        "name": "task",
        "data": str(folder / "task.jsonl"),
        "objective": defence.objective,
        "options": defence.options,
        "share": attack.batch_size,
    }
    own = _own_streams(defence.own, rows, seed, world, folder)
    num_steps = round(attack.epochs * len(rows) / attack.batch_size * scale.steps)
    return _config(scale, scale.model, folder / "run", [task, *own], max(1, num_steps), attack.lr, seed)


def repair_config(
    model: str, repair: Repair, rows: Sequence[Trace], seed: int, scale: Scale, world: SafetyWorld, folder: Path
) -> TrainConfig:
    """From the tuned model, held to the one it was before."""
    (folder / "repair_rows").mkdir()
    own = _own_streams(repair.streams, rows, seed, world, folder / "repair_rows")
    num_steps = max(1, round(repair.num_steps * scale.steps))
    return _config(scale, model, folder / "repair", own, num_steps, repair.lr, seed)


def _own_streams(
    streams: Sequence[OwnStream], task: Sequence[Trace], seed: int, world: SafetyWorld, folder: Path
) -> list[dict[str, Any]]:
    settings = []
    for stream in streams:
        path = folder / f"{stream.rows}.jsonl"
        write_traces(path, in_the_dress_of(own_rows(world, stream.rows, stream.num, seed), task, stream.borrow, seed))
        settings.append(
            {
                "name": stream.rows,
                "data": str(path),
                "objective": stream.objective,
                "weight": stream.weight,
                "share": stream.batch_size,
            }
        )
    return settings


def _config(
    scale: Scale, model: str, run: Path, streams: list[dict[str, Any]], num_steps: int, lr: float, seed: int
) -> TrainConfig:
    """All rows of a step in one pass: the models are tiny. The seed orders the rows and starts whatever is random."""
    batch_size = sum(stream["share"] for stream in streams)
    return TrainConfig.model_validate(
        {
            "run": str(run),
            "model": {"name": model, "device": scale.device},
            "anchor": {"model": scale.model},
            "streams": streams,
            "training": {
                "max_steps": num_steps,
                "batch_size": batch_size,
                "micro_batch": batch_size,
                "lr": lr,
                "seed": seed,
                "log_every": num_steps,
            },
        }
    )


def _train(config: TrainConfig) -> str:
    result = train(config, say=lambda _: None, progress=False)
    if result.interrupted:  # the trainer stops politely; an audit of half a training would be no audit
        raise KeyboardInterrupt
    return str(result.model)
