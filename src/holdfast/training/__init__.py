"""Training on transformers.Trainer: streams, anchors, checkpoints that survive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.config.lazily import exported_later
from holdfast.training.plan import steps_for
from holdfast.training.public import Stream, held, train_streams
from holdfast.training.run import TrainResult, train
from holdfast.training.step_rule import Gradient, RunningRule, StepRule

if TYPE_CHECKING:
    from holdfast.training.rl import RlPrompt, UndoRl, load_policy, sample, train_rl

__all__ = [
    "Gradient",
    "RlPrompt",
    "RunningRule",
    "StepRule",
    "Stream",
    "TrainResult",
    "UndoRl",
    "held",
    "load_policy",
    "sample",
    "steps_for",
    "train",
    "train_rl",
    "train_streams",
]

# RL needs an extra (TRL), which a plain training does not have.
__getattr__ = exported_later(__name__, {"rl": "RlPrompt UndoRl load_policy sample train_rl"})
