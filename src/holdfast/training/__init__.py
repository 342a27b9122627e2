"""Training on transformers.Trainer: streams, anchors, checkpoints that survive."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.training.public import Stream, held, train_streams
from holdfast.training.run import TrainResult, train

if TYPE_CHECKING:
    from holdfast.training.rl import RlPrompt, load_policy, train_rl
    from holdfast.training.rl_sampling import sample
    from holdfast.training.undo_rl import UndoRl

__all__ = [
    "RlPrompt",
    "Stream",
    "TrainResult",
    "UndoRl",
    "held",
    "load_policy",
    "sample",
    "train",
    "train_rl",
    "train_streams",
]

_LATER = {"rl": "RlPrompt load_policy train_rl", "rl_sampling": "sample", "undo_rl": "UndoRl"}


def __getattr__(name: str) -> Any:
    """RL needs an extra (TRL), which a plain training does not have."""
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f"holdfast.training.{module}"), name)
    raise AttributeError(f"module 'holdfast.training' has no attribute '{name}'")
