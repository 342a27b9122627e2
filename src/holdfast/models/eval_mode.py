"""Switch a model to eval mode for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Switch off dropout inside. Afterwards the model is in the mode that it was in, also after an error."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
