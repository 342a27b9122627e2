"""Step rules of other people's defences: SafeGrad's projection (MATH §9) and Lisa's alternation with a proximal term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from holdfast.training import Gradient

TASK = frozenset({0})


def others(num_streams: int) -> frozenset[int]:
    """Every stream but the task's."""
    return frozenset(range(1, num_streams))


@dataclass(frozen=True)
class SafeGrad:
    """Where the task's gradient points against the held streams', that part of it is taken away; theirs is added whole."""

    def begin(self) -> SafeGrad:
        """The rule itself, because it remembers nothing."""
        return self

    def passes(self, step: int, num_streams: int) -> list[frozenset[int]]:
        """The task, and all held streams together."""
        del step
        return [TASK, others(num_streams)]

    def combined(self, step: int, parameters: Sequence[Tensor], gradients: Sequence[Gradient]) -> Gradient:
        """g_task - min(0, <g_task, g_held>) / |g_held|^2 g_held + g_held, over all parameters at once."""
        del step, parameters
        task, held = gradients
        along = _inner(task, held)
        square = _inner(held, held)
        share = (along.clamp(max=0) / square).to(task[0].dtype) if square > 0 else 0.0
        return [mine - share * theirs + theirs for mine, theirs in zip(task, held, strict=True)]


@dataclass(frozen=True)
class Lisa:
    """Some steps on the held streams, then some on the task, each drawn to where the model was at the last change.

    ``rho``: the proximal term is rho / 2 |w - w_last change|^2.
    """

    held_steps: int = 4
    task_steps: int = 4
    rho: float = 1.0

    def begin(self) -> LisaRun:
        """Begin a run. The first change is at the start."""
        return LisaRun(self)


@dataclass
class LisaRun:
    """Remembers the weights at the last change."""

    rule: Lisa
    last: list[Tensor] = field(default_factory=list)
    was_task: bool | None = None

    def on_task(self, step: int) -> bool:
        """Whether this step is the task's; the held streams begin."""
        return step % (self.rule.held_steps + self.rule.task_steps) >= self.rule.held_steps

    def passes(self, step: int, num_streams: int) -> list[frozenset[int]]:
        """The task, or all held streams together, by the number of the step."""
        return [TASK if self.on_task(step) or num_streams == 1 else others(num_streams)]

    def combined(self, step: int, parameters: Sequence[Tensor], gradients: Sequence[Gradient]) -> Gradient:
        """The gradient and rho (w - w_last)."""
        if self.on_task(step) != self.was_task:
            self.was_task = self.on_task(step)
            self.last = [parameter.detach().clone() for parameter in parameters]
        rows = zip(gradients[0], parameters, self.last, strict=True)
        return [gradient + self.rule.rho * (parameter - last) for gradient, parameter, last in rows]


def _inner(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    products = [(a.double() * b.double()).sum() for a, b in zip(first, second, strict=True)]
    return torch.stack(products).sum()
