"""Training on transformers.Trainer: streams, anchors, checkpoints that survive."""

from holdfast.training.public import Stream, held, train_streams
from holdfast.training.rl import RlPrompt, load_policy, train_rl
from holdfast.training.rl_sampling import sample
from holdfast.training.run import TrainResult, train
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
