"""Gradients kept whole, or as a sketch where they would not fit: norms and cosines are all that is asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class Keeper:
    """Turns gradients into vectors that can be added, and whose inner products are those of the gradients.

    Whole: the parameters end to end, exact. ``sketch`` = K: a count sketch, in which every coordinate is added with a random
    sign to one of K places; inner products are right on average, with an error of about |a| |b| / sqrt(K).
    """

    def __init__(self, parameters: Sequence[Tensor], *, sketch: int | None = None) -> None:
        self.parameters, self.sketch = list(parameters), sketch
        self.num = sum(parameter.numel() for parameter in self.parameters)
        self._drawn: dict[int, tuple[Tensor, Tensor]] = {}
        assert self.num, "no parameter takes a gradient"

    def keep(self, gradients: Sequence[Tensor | None]) -> Tensor:
        """One vector on the CPU, in float64."""
        parts = [
            torch.zeros(parameter.numel(), dtype=torch.float64)
            if gradient is None
            else gradient.detach().flatten().to("cpu", torch.float64)
            for parameter, gradient in zip(self.parameters, gradients, strict=True)
        ]
        if self.sketch is None:
            return torch.cat(parts)
        vector = torch.zeros(self.sketch, dtype=torch.float64)
        for number, part in enumerate(parts):
            places, signs = self._places(number)
            vector.index_add_(0, places, part * signs)
        return vector

    def _places(self, number: int) -> tuple[Tensor, Tensor]:
        """Where each coordinate of a parameter goes, and with which sign: drawn once, five bytes a coordinate."""
        if number not in self._drawn:
            size, generator = self.parameters[number].numel(), torch.Generator().manual_seed(number)
            places = torch.randint(self.sketch or 1, (size,), generator=generator, dtype=torch.int32)
            signs = torch.randint(2, (size,), generator=generator, dtype=torch.int8).mul_(2).sub_(1)
            self._drawn[number] = places, signs
        return self._drawn[number]


def trained_parameters(model: Any) -> list[Tensor]:
    """The parameters that would be trained: adapters alone where there are any. A tied one counts once."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def cosine(a: Tensor, b: Tensor) -> float | None:
    """None where one of the two has no length."""
    scale = float(a.norm() * b.norm())
    return float(a @ b) / scale if scale > 0 else None
