"""A model without its dropout for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Afterwards it is as it was, also when something goes wrong."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
