"""Training on transformers.Trainer: streams, anchors, checkpoints that survive."""

from holdfast.training.run import TrainResult, train

__all__ = ["TrainResult", "train"]
