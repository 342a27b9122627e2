"""What `holdfast diagnose undo-costs` reads: a model that takes back, a task, and prices for taking back."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from holdfast.config import GrpoSettings, ModelSettings, Settings


class UndoCostsConfig(Settings):
    """GRPO from the same model for every cost of an undo."""

    run: str
    title: str
    model: ModelSettings  # knows <UNDO>: the result of a training on traces
    train: str  # requests with their right answers: any name that `holdfast traces make` takes
    test: str
    num_train: int = Field(default=400, gt=0)
    num_test: int = Field(default=200, gt=0)
    costs: tuple[float, ...] = Field(default=(0.0, 0.02, 0.1, 0.3), min_length=1)
    context: Literal["soft", "hard"] = "soft"
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    workers: int = Field(default=1, gt=0)  # trainings at a time, each a process of its own
    rl: GrpoSettings
