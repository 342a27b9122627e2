"""How the gradients of a step's streams become one update, where it is not their sum: for defences that project or alternate.

A rule says which streams get a gradient of their own and what becomes of these gradients. It is given in Python
(``train(..., step_rule=...)``); runs with one take one process and are not resumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor, nn

Gradient = list[Tensor]
"""One tensor for every trained parameter, in order."""


class RunningRule(Protocol):
    """A rule in one run; it may remember what it needs from step to step."""

    def passes(self, step: int, num_streams: int) -> Sequence[frozenset[int]]:
        """Groups of streams, each with a gradient of its own. Streams in no group take no part in the step."""
        ...

    def combined(self, step: int, parameters: Sequence[Tensor], gradients: Sequence[Gradient]) -> Gradient:
        """The update's gradient, from one for every group."""
        ...


class StepRule(Protocol):
    """The description of a rule: a frozen dataclass, so that the hash in a cell's name covers it."""

    def begin(self) -> RunningRule:
        """The rule as it is at the start of a run."""
        ...


class Passes:
    """Keeps the gradients of the groups apart while the micro-batches of a step go by."""

    def __init__(self, rule: StepRule) -> None:
        self.rule = rule.begin()
        self.kept: dict[int, list[Tensor | None]] = {}

    @contextmanager
    def gradient_of(self, group: int, model: nn.Module) -> Iterator[None]:
        """Backward passes in here add to the gradient of this group, and to no other."""
        parameters = trained(model)
        before = self.kept.get(group, [None] * len(parameters))
        for parameter, gradient in zip(parameters, before, strict=True):
            parameter.grad = gradient
        yield
        self.kept[group] = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None

    @torch.no_grad()
    def combine(self, model: nn.Module, step: int, num_streams: int) -> None:
        """Put the rule's gradient into the parameters, at the end of a step."""
        parameters = trained(model)
        gradients = []
        for group in range(len(self.rule.passes(step, num_streams))):
            kept = self.kept.get(group, [None] * len(parameters))
            pairs = zip(kept, parameters, strict=True)
            gradients.append([torch.zeros_like(p) if gradient is None else gradient for gradient, p in pairs])
        self.kept = {}
        for parameter, gradient in zip(parameters, self.rule.combined(step, parameters, gradients), strict=True):
            parameter.grad = gradient


def trained(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that learn."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]
