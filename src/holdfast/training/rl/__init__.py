"""GRPO on TRL, imported lazily: RL needs an extra (TRL), which a plain training does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.config.lazily import exported_later

if TYPE_CHECKING:
    from holdfast.training.rl.run import Interrupted, load_policy, train_rl
    from holdfast.training.rl.sampling import sample
    from holdfast.training.rl.task import Environment, Observer, RlPrompt
    from holdfast.training.rl.undo import UndoRl

__all__ = [
    "Environment",
    "Interrupted",
    "Observer",
    "RlPrompt",
    "UndoRl",
    "load_policy",
    "sample",
    "train_rl",
]

_LATER = {
    "run": "Interrupted load_policy train_rl",
    "sampling": "sample",
    "task": "Environment Observer RlPrompt",
    "undo": "UndoRl",
}

__getattr__ = exported_later(__name__, _LATER)
