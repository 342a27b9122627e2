"""The real trainer as a run that can be killed: two streams, an anchor, dropout, six steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from conftest import save_small_model
from crash.kills import Run
from holdfast.config import TrainConfig
from holdfast.training import durable, train


def trainer_run(place: Path) -> Run:
    """``run(directory, until_step, on_point)`` with a small model and a few rows, made in ``place``."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = save_small_model(place / "model", attention_dropout=0.2, **sizes)
    data = place / "rows.jsonl"
    with data.open("w", encoding="utf-8") as file:
        for index in range(24):
            turns = [("user", "copy " + "x " * (index % 5 + 1)), ("assistant", "x " * (index % 5 + 1))]
            file.write(json.dumps({"messages": [{"role": r, "content": c} for r, c in turns]}) + "\n")

    def run(directory: Path, until_step: int, on_point: Callable[[str], None]) -> None:
        durable.at_point = on_point
        config = TrainConfig.model_validate(
            {
                "run": str(directory),
                "model": {"name": str(model), "device": "cpu"},
                "streams": [
                    {"data": str(data), "objective": "csft_pa", "name": "task"},
                    {"data": "world:safety/train/forbidden", "objective": "distill", "name": "hold", "limit": 4},
                ],
                "training": {"batch_size": 4, "max_steps": until_step, "lr": 1e-2, "save_every": 2, "keep": 1},
            }
        )
        train(config, say=lambda _: None, progress=False)

    return run
