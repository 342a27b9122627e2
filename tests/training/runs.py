"""Runs of the real trainer on small models, in this process."""

from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from holdfast.config import TrainConfig
from holdfast.training import TrainResult, train
from invariants.launching import steps

TASK = {"data": "world:safety/train/recipe", "objective": "csft_pa", "name": "task", "limit": 32}


def config(run: Path | str, name: Path | str, **changes: Any) -> TrainConfig:
    base: dict[str, Any] = {
        "run": str(run),
        "model": {"name": str(name)},
        "streams": [TASK],
        "training": {"batch_size": 8, "micro_batch": 4, "max_steps": 4, "lr": 2e-3},
    }
    for section, values in changes.items():
        base[section] = {**base[section], **values} if isinstance(base.get(section), dict) else values
    return TrainConfig.model_validate(base)


def run(settings: TrainConfig, said: list[str] | None = None) -> TrainResult:
    return train(settings, say=(said if said is not None else []).append, progress=False)


def losses(settings: TrainConfig) -> list[float]:
    run(settings)
    return [row["loss"] for row in steps(Path(settings.run))]


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(next(iter([*folder.glob("adapter_model.safetensors"), *folder.glob("model.safetensors")])))
