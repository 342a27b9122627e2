"""GRPO on TRL, imported lazily: RL needs an extra (TRL), which a plain training does not have."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.training.rl.run import Interrupted, Observer, RlPrompt, load_policy, train_rl
    from holdfast.training.rl.sampling import Environment, sample
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
    "run": "Interrupted Observer RlPrompt load_policy train_rl",
    "sampling": "Environment sample",
    "undo": "UndoRl",
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f"holdfast.training.rl.{module}"), name)
    raise AttributeError(f"module 'holdfast.training.rl' has no attribute '{name}'")
