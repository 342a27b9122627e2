"""The gradients of a head's two operands, gathered from chunks of logits."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.heads.products import add_grad_weight, grad_hidden_into, logits_dtype, operand_of
from holdfast.heads.sources import head_logits


class HeadGradients:
    """The gradients of hidden states and weight, gathered chunk by chunk in the logits' dtype."""

    def __init__(
        self,
        hidden: Tensor,
        weight: Tensor,
        dtype: torch.dtype,
        num_vocab: int | None,
        for_hidden: bool,
        for_weight: bool,
    ) -> None:
        self.policy = head_logits(hidden, weight, dtype, num_vocab)
        self.dtypes = (hidden.dtype, weight.dtype)
        wide = logits_dtype(dtype)
        self.hidden = _zeros(hidden, wide) if for_hidden else None
        self.weight = _zeros(weight, wide) if for_weight else None

    def add(self, rows: slice, grad: Tensor) -> None:
        """Take in the gradient of some rows of logits; each row once."""
        grad = operand_of(grad, self.policy.weight)
        if self.hidden is not None:
            grad_hidden_into(self.hidden[rows], grad, self.policy.weight)
        if self.weight is not None:
            add_grad_weight(self.weight[: self.policy.num_vocab], grad, self.policy.hidden[rows])

    def cast(self, factor: Tensor | None = None) -> tuple[Tensor | None, Tensor | None]:
        """Times ``factor``, in place, then in the dtypes of hidden states and weight."""
        found = []
        for grad, dtype in zip((self.hidden, self.weight), self.dtypes, strict=True):
            if grad is not None and factor is not None:
                grad.mul_(factor)
            found.append(None if grad is None else grad.to(dtype))
        return found[0], found[1]


def _zeros(like: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros_like(like, dtype=dtype, memory_format=torch.contiguous_format)
