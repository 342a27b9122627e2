"""What a step within budgets costs: `python docs/tools/budget_cost.py` writes docs/results/budget-cost.json.

CPU seconds of a step on one thread, against our own plain sft over the same task rows, in turn and in one process. tiny:aligned,
four times the rows of a step of budget.py (64 task rows), so that the model's work counts and not the loop around it.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from holdfast.attacks import ATTACKS, WorldSetting
from holdfast.config import TrainConfig
from holdfast.data import write_traces
from holdfast.training import train

RESULTS = Path(__file__).parents[1] / "results" / "budget-cost.json"
TASK_ROWS, STEPS, WARM_UP, ROUNDS = 64, 14, 4, 2
VARIANTS: dict[str, tuple[int, dict[str, Any], bool]] = {
    "wide 30": (8, {}, False),
    "wide 30, exact cache": (8, {}, True),
    "wide 30, 16 tokens": (8, {"tokens": 16}, False),
    "wide 30, every 2nd step": (8, {"every": 2}, False),
    "wide 30, 4 + 4 rows": (4, {}, False),
    "wide 30, 4 + 4 rows, 16 tokens": (4, {"tokens": 16}, False),
    "wide 30, 4 + 4 rows, 16 tokens, exact cache": (4, {"tokens": 16}, True),
    "wide 30, 2 + 2 rows": (2, {}, False),
    "wide 30, every 2nd step, 16 tokens": (8, {"every": 2, "tokens": 16}, False),
}
"""Held rows of each kind for 16 of the task; what ``hold`` has beside ``wide``; whether the anchor is read from a cache."""


class StepClock(TrainerCallback):
    """CPU seconds at the end of every step."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note the time at the end of a step."""
        self.ends.append(time.process_time())

    @property
    def mean(self) -> float:
        """The mean of the steps after the warm-up. Their number is even, because every second step may cost more."""
        return (self.ends[-1] - self.ends[WARM_UP - 1]) / (len(self.ends) - WARM_UP)


def step_seconds(model: str, rows: Path, name: str, folder: Path) -> float:
    """The mean step of one short run."""
    streams: list[dict[str, Any]] = [{"name": "task", "data": str(rows), "objective": "sft", "share": TASK_ROWS}]
    anchor = {}
    if name != "sft":
        num_held, hold, cached = VARIANTS[name]
        streams += [
            {
                "name": kind,
                "data": f"prompts:{kind}",
                "limit": 80,
                "objective": "distill",
                "hold": {"wide": 30, **hold},
                "share": TASK_ROWS // 16 * num_held,
            }
            for kind in ("safety", "keep")
        ]
        anchor = {"via": "cache", "cache": str(folder / "cache")} if cached else {"via": "model"}
    batch_size = int(sum(stream["share"] for stream in streams))
    training = {"max_steps": STEPS, "batch_size": batch_size, "micro_batch": batch_size, "lr": 1e-4, "log_every": 100}
    settings = {"run": str(folder / "run"), "model": model, "anchor": anchor, "streams": streams, "training": training}
    clock = StepClock()
    train(TrainConfig.model_validate(settings), say=lambda _: None, progress=False, callbacks=[clock], throwaway=True)
    return clock.mean


def main() -> None:
    """Measure round after round, so that a busy moment affects every variant alike, and write the median of the rounds."""
    torch.set_num_threads(1)
    times: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        rows = Path(scratch) / "task.jsonl"
        write_traces(rows, ATTACKS["benign_drift"].data.rows(WorldSetting(), 0))
        for number in range(ROUNDS):
            for name in ("sft", *VARIANTS):
                with tempfile.TemporaryDirectory(dir=scratch) as folder:
                    times[name].append(step_seconds("tiny:aligned", rows, name, Path(folder)))
                print(number, name, f"{1e3 * times[name][-1]:.1f} ms", flush=True)
    seconds = {name: statistics.median(own) for name, own in times.items()}
    RESULTS.write_text(json.dumps(seconds, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
