"""Training on transformers.Trainer: streams, anchors, checkpoints that survive."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.training.public import Stream, held, train_streams
from holdfast.training.run import TrainResult, train

if TYPE_CHECKING:
    from holdfast.training.rl import RlPrompt, UndoRl, load_policy, sample, train_rl

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


def __getattr__(name: str) -> Any:
    """RL is imported when it is used: it needs an extra (TRL), which a plain training does not have."""
    if name in __all__:
        return getattr(import_module("holdfast.training.rl"), name)
    raise AttributeError(f"module 'holdfast.training' has no attribute '{name}'")
