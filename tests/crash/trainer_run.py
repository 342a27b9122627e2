"""The real trainer as a run that can be killed: two streams, an anchor, dropout, six steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.config import TrainConfig
from holdfast.training import durable, train


def trainer_run(model: Path, data: Path) -> Callable[[Path, int, Callable[[str], None]], None]:
    """``run(directory, until_step, on_point)`` for this model and these rows."""

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
