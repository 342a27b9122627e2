"""What a task brings to RL: its problems, what the log says of replies, and an environment. Nothing here needs TRL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from holdfast.records import Reply

Observer = Callable[[Sequence[Reply]], Mapping[str, float]]
"""The replies that were rewarded -> figures for the log, such as p_s, p_dC and p_dW along training."""


@dataclass(frozen=True, slots=True)
class RlPrompt:
    """A problem and its answer."""

    prompt: str
    answer: str


class Environment(Protocol):
    """What happens to a token between its being sampled and its being read."""

    def start(self, num: int, device: torch.device) -> None:
        """Begin ``num`` new responses."""

    def __call__(self, rows: Tensor, sampled: Tensor, generator: torch.Generator) -> Tensor:
        """``rows``: which responses the sampled tokens belong to. Returns the tokens that stand in the text."""
