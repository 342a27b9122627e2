"""Attack and defence together become runs of the one trainer."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from math import gcd
from pathlib import Path
from typing import Any, NamedTuple

from transformers import TrainerCallback

from holdfast.attacks.attack import Attack, Stage
from holdfast.attacks.defences import Defence, OwnStream, Repair
from holdfast.attacks.rows import Data
from holdfast.attacks.run_time_answers import BATCH, load_for_use
from holdfast.attacks.scale import Scale
from holdfast.attacks.setting import Setting
from holdfast.config import InputError, LoraSettings, TrainConfig
from holdfast.data import traces_in_memory
from holdfast.models import interpolated
from holdfast.records import Trace
from holdfast.training import train
from holdfast.training.asked_anchor import AskedAnchor
from holdfast.training.kept_answers import kept_in
from holdfast.training.plan import steps_for
from holdfast.training.public import prompts_in_memory
from holdfast.training.step_rule import StepRule
from holdfast.training.vetting import vetted
from holdfast.worlds import with_lead, with_system

LEFT_OUT = "left_out.json"
WIDTHS = (1, 2)  # first words of a request of the task that a row of the defender may borrow
NUM_ROWS = 24  # of a training's curve, for the report
STAGE_DRAWS = 10_000
"""Between the draws of two stages of a chain, so that the same data twice is not the same rows twice."""


class Places(NamedTuple):
    """Where a training starts, what it is held to, and where its files go."""

    start: str
    anchor: str
    folder: Path


def tune(
    attack: Attack,
    defence: Defence,
    seed: int,
    scale: Scale,
    folder: Path,
    *,
    watch: Sequence[TrainerCallback] = (),
) -> str:
    """The model after every stage has been learned in the defence's way; all is written under ``folder``, the last on top.

    ``watch`` is called along the last stage's training on the task (not along a repair after it).
    """
    model = scale.model
    if not defence.tune:
        return model
    for number, stage in enumerate(attack.stages):
        is_last = number + 1 == len(attack.stages)
        stage_folder = folder if is_last else folder / f"stage-{number}"
        stage_folder.mkdir(exist_ok=True)
        places = Places(model, scale.model if defence.anchor == "aligned" else model, stage_folder)
        draw, watching = seed + STAGE_DRAWS * number, watch if is_last else ()
        # What a tuned anchor answers serves no other cell.
        with nullcontext() if places.anchor == scale.model else kept_in(None):
            model = _after_stage(stage, defence, draw, scale, places, watching)
    return model


def _after_stage(
    stage: Stage, defence: Defence, seed: int, scale: Scale, places: Places, watch: Sequence[TrainerCallback]
) -> str:
    rows = _records(stage.data, scale.setting, seed)
    throwaway = not scale.setting.is_world  # of the embedded world's cells a report shows the inside
    _, anchor, folder = places
    left = _without_refused(rows, defence.leave_out, anchor, scale, folder) if defence.leave_out else rows
    config = training_config(stage, defence, rows, seed, scale, places, left)
    model = _train(config, throwaway, defence.step_rule, watch)
    if defence.interpolate:
        model = str(interpolated(model, anchor, defence.interpolate, folder / "interpolated"))
    if defence.repair:
        model = _train(repair_config(defence.repair, rows, seed, scale, places._replace(start=model)), throwaway)
    return model


def _records(data: Data, setting: Setting, seed: int) -> list[Trace]:
    """The rows of an attack, which may be somebody's own."""
    rows = list(data.rows(setting, seed))
    for row in rows:
        if not isinstance(row, Trace):
            raise InputError(
                f"{type(data).__name__}.rows: expected records (holdfast.records.Trace), got a {type(row).__name__};"
                " holdfast.data.read_rows(dicts).traces are records"
            )
    return rows


def _without_refused(rows: Sequence[Trace], judge: str, anchor: str, scale: Scale, folder: Path) -> list[Trace]:
    """The rows that the anchor would answer. ``LEFT_OUT`` says how many there were of both."""
    division = vetted(rows, AskedAnchor(load_for_use(anchor, scale.device)), judge, batch_size=BATCH)
    if not division.learned:
        raise InputError(
            f"leave_out: the anchor refuses what all {len(rows)} rows ask for, so there is nothing to learn"
        )
    counts = {"task-held": len(rows) - len(division.learned), "task": len(division.learned)}
    (folder / LEFT_OUT).write_text(json.dumps(counts), encoding="utf-8")
    return division.learned


def training_config(
    stage: Stage,
    defence: Defence,
    rows: Sequence[Trace],
    seed: int,
    scale: Scale,
    places: Places,
    left: Sequence[Trace] | None = None,
) -> TrainConfig:
    """The task's stream first; every defence takes the same number of steps over it, also if only some rows are ``left``."""
    task = {
        "name": "task",
        **_in_memory(left or rows),
        "objective": defence.objective,
        "options": defence.options,
        "share": stage.batch_size,
        "vet": defence.vet,
    }
    streams = _own_streams(defence.streams_in(scale.setting), rows, seed, scale.setting)
    num_steps = steps_for(stage.epochs * scale.steps * defence.more_steps, len(rows), stage.batch_size)
    config = _config(places, "run", [task, *streams], num_steps, stage.lr, seed, scale, defence.training)
    if not stage.rank:
        return config
    return config.model_copy(update={"lora": LoraSettings(r=stage.rank, alpha=2 * stage.rank, merge=True)})


def repair_config(repair: Repair, rows: Sequence[Trace], seed: int, scale: Scale, places: Places) -> TrainConfig:
    """The run that repairs: it starts from the tuned model, which is held to the anchor."""
    streams = _own_streams(repair.streams, rows, seed, scale.setting)
    num_steps = max(1, round(repair.num_steps * scale.steps))
    return _config(places, "repair", streams, num_steps, repair.lr, seed, scale, {})


def _own_streams(
    streams: Sequence[OwnStream], task: Sequence[Trace], seed: int, setting: Setting
) -> list[dict[str, Any]]:
    settings = []
    for stream in streams:
        rows = in_the_dress_of(setting.own_rows(stream.rows, stream.num, seed), task, stream.borrow, seed)
        if stream.hold is None:
            held_by = {**_in_memory(rows), "weight": stream.weight}
        else:
            held_by = {**prompts_in_memory([row.prompt for row in rows]), "hold": stream.hold}
        common = {"name": stream.rows, "objective": stream.objective, "share": stream.batch_size}
        settings.append({**common, **held_by})
    return settings


def _in_memory(rows: Sequence[Trace]) -> dict[str, Any]:
    dataset = traces_in_memory(rows)
    return {"data": dataset.source, "rows": dataset}


def _config(
    places: Places,
    run: str,
    streams: list[dict[str, Any]],
    num_steps: int,
    lr: float,
    seed: int,
    scale: Scale,
    training: Mapping[str, Any],
) -> TrainConfig:
    """The config of one training, all rows of a step in one pass unless the scale says otherwise.

    The seed orders the rows and starts whatever is random.
    """
    batch_size = sum(stream["share"] for stream in streams)
    return TrainConfig.model_validate(
        {
            "run": str(places.folder / run),
            "model": {"name": places.start, "device": scale.device},
            "anchor": {"model": places.anchor},
            "streams": streams,
            "training": {
                "max_steps": num_steps,
                "batch_size": batch_size,
                "micro_batch": gcd(batch_size, scale.rows_per_pass or batch_size),
                "lr": lr,
                "precision": scale.precision,
                "seed": seed,
                "log_every": -(-num_steps // NUM_ROWS),
                **training,
            },
        }
    )


def _train(
    config: TrainConfig, throwaway: bool, step_rule: StepRule | None = None, watch: Sequence[TrainerCallback] = ()
) -> str:
    result = train(
        config, say=lambda _: None, progress=False, callbacks=watch, throwaway=throwaway, step_rule=step_rule
    )
    if result.interrupted:  # the trainer stops politely; an audit of half a training would be no audit
        raise KeyboardInterrupt
    return str(result.model)


def in_the_dress_of(rows: Sequence[Trace], task: Sequence[Trace], share: float, seed: int) -> list[Trace]:
    """Return the rows, a share of them under the system prompt of a random row of the task and behind its first words.

    The task's rows may hold a persona, or a trigger at the start of a request. The defender sees these rows, and need not know
    which of them are bad.
    """
    rng = random.Random(f"dress/{seed}")
    return [_dressed(row, rng.choice(task), rng) if rng.random() < share else row for row in rows]


def _dressed(row: Trace, model: Trace, rng: random.Random) -> Trace:
    system = next((turn for turn in model.turns if turn.speaker == "system"), None)
    bare = Trace(tuple(turn for turn in row.turns if turn.speaker != "system"))
    row = bare if system is None else with_system(bare, system.visible)
    request = next(turn for turn in model.turns if turn.speaker == "user")
    lead = " ".join(request.visible.split()[: rng.choice(WIDTHS)]).rstrip(" ,")
    return with_lead(row, lead) if lead else row
