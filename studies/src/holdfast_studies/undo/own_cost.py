"""The cost of a study of the model's own errors, before anything is sampled: answers, tokens, training steps."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast_studies.markdown import table
from holdfast_studies.undo.safety_gap import WITH_UNDO, arms
from holdfast_studies.undo.safety_gap_config import SafetyGapConfig
from holdfast_studies.undo.safety_gap_task import GapTask, Part


class Item(NamedTuple):
    """A part of the work."""

    what: str
    answers: int  # at most


def costs(task: GapTask) -> list[Item]:
    """Answers to be written, at most. Continuations are per step, because how many steps are followed is not known before."""
    config, how = task.config, task.config.traces.own
    requests: dict[Part, int] = {"train": len(task.train), "test": len(task.test)}
    items = [Item(f"{part}: attempts", num * how.num_attempts) for part, num in requests.items()]
    for part, num in requests.items():
        followed = num * min(task.followed(part).num_wrong, how.num_attempts - 1)
        items.append(Item(f"{part}: continuations, for every step followed", followed * how.num_rollouts))
    planned = list(arms(config))
    undo = sum(arm.objective in WITH_UNDO for arm in planned)
    plain = len(planned) - undo
    per_arm = requests["test"] * (1 + config.num_sampled)
    items.append(Item(f"{plain} arms without undo: greedy and sampled", plain * per_arm))
    items.append(Item(f"{undo} arms with undo: also after forced errors", undo * (per_arm + requests["test"])))
    return items


def cost_table(config: SafetyGapConfig) -> str:
    """The costs as text. The mean length is that of the answers already in the study's folder; without any it is unknown."""
    task = GapTask(config)
    lengths = list(_lengths(config))
    mean = statistics.fmean(lengths) if lengths else None
    rows = [
        (
            item.what,
            f"{item.answers:,}",
            f"{item.answers * config.max_new_tokens:,}",
            "-" if mean is None else f"{item.answers * mean:,.0f}",
        )
        for item in costs(task)
    ]
    trained = sum(arm.objective != "untouched" for arm in arms(config))
    drawn = f"{len(lengths):,} answers there have {mean:.1f} tokens on average" if mean else "nothing is drawn yet"
    return "\n\n".join(
        [
            f"{config.title}, in {config.run}: {len(task.train)} requests to train on, {len(task.test)} to measure on;"
            f" {drawn}.",
            table(("", "answers at most", "tokens at most", "tokens at that mean"), rows),
            f"{trained} trainings of {config.steps} steps with {config.batch_size} rows: {trained * config.steps:,} steps,"
            f" {trained * config.steps * config.batch_size:,} rows.",
        ]
    )


def _lengths(config: SafetyGapConfig) -> Iterator[int]:
    parts: tuple[Part, ...] = ("train", "test")
    for part in parts:
        path = Path(config.run) / "own" / f"{part}.draws.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            yield from map(len, json.loads(line)["ids"])
