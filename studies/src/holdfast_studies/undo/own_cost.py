"""What a study of the model's own errors will cost, before anything is drawn: answers, tokens, training steps."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast_studies.undo.safety_gap import WITH_UNDO, arms
from holdfast_studies.undo.safety_gap_config import SafetyGapConfig
from holdfast_studies.undo.safety_gap_page import table
from holdfast_studies.undo.safety_gap_task import GapTask, Part


class Item(NamedTuple):
    """A part of the work."""

    what: str
    answers: int  # at most
    with_undo: bool = False  # decoded token by token, without CUDA graphs


def costs(task: GapTask) -> list[Item]:
    """Answers to be written, at most. Continuations are per step: how many steps are followed is not known before."""
    config, how = task.config, task.config.traces.own
    trained = [arm for arm in arms(config) if arm.objective != "untouched"]
    requests = {"train": len(task.train), "test": len(task.test)}
    items = [Item(f"{part}: attempts", num * how.num_attempts) for part, num in requests.items()]
    for part, num in requests.items():
        followed = num * min(how.num_wrong, how.num_attempts - 1)
        items.append(Item(f"{part}: continuations, for every step that is followed", followed * how.num_rollouts))
    undo = [arm for arm in trained if arm.objective in WITH_UNDO]
    plain = len(list(arms(config))) - len(undo)
    per_arm = requests["test"] * (1 + config.num_sampled)
    items.append(Item(f"{plain} arms without undo: greedy and sampled answers", plain * per_arm))
    forced = len(undo) * requests["test"]
    items.append(Item(f"{len(undo)} arms with undo: the same, and forced errors", len(undo) * per_arm + forced, True))
    return items


def cost_table(config: SafetyGapConfig) -> str:
    """For the terminal. Mean lengths are those of answers that the study's folder already has, else unknown."""
    task = GapTask(config)
    lengths = list(_lengths(config))
    mean = statistics.fmean(lengths) if lengths else None
    rows = []
    for item in costs(task):
        likely = "-" if mean is None else f"{item.answers * mean:,.0f}"
        rows.append((item.what, f"{item.answers:,}", f"{item.answers * config.max_new_tokens:,}", likely))
    trained = [arm for arm in arms(config) if arm.objective != "untouched"]
    steps = len(trained) * config.steps
    drawn = f"{len(lengths):,} answers in {config.run} have {mean:.1f} tokens on average" if mean else "nothing is drawn yet"
    return "\n\n".join(
        [
            f"{config.title}: {len(task.train)} requests to train on, {len(task.test)} to measure on; {drawn}.",
            table(("", "answers at most", "tokens at most", "tokens at the mean length so far"), rows),
            f"{len(trained)} trainings of {config.steps} steps with {config.batch_size} rows: {steps:,} steps,"
            f" {steps * config.batch_size:,} rows; {config.num_measurements} measurements each.",
        ]
    )


def _lengths(config: SafetyGapConfig) -> Iterator[int]:
    parts: tuple[Part, ...] = ("train", "test")
    for part in parts:
        path = Path(config.run) / "own" / f"{part}.draws.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            yield from map(len, json.loads(line)["ids"])
