"""The gradients of a head's two operands, gathered from chunks of logits: sums over chunks, or one product each at the end."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.heads.products import (
    add_grad_weight,
    grad_hidden_into,
    grad_weight_into,
    operand_of,
    widens,
)
from holdfast.heads.sources import HeadLogits, aligned_rows

HELD_PER_WIDTH = 3
"""Tokens, in units of the head's width, whose half-precision gradients are kept until all are there. At 2 they take the
room of the float32 sum of weight gradients that they make needless."""


class HeadGradients:
    """The gradients of hidden states and weight, summed chunk by chunk in the logits' dtype."""

    def __init__(self, policy: HeadLogits, hidden: Tensor, weight: Tensor, for_hidden: bool, for_weight: bool) -> None:
        self.policy, self.dtypes = policy, (hidden.dtype, weight.dtype)
        self._sizes = (hidden.shape if for_hidden else None, weight.shape if for_weight else None)
        self.hidden: Tensor | None = None
        self.weight: Tensor | None = None
        self._room: Tensor | None = None
        self._begun = False

    def room(self, rows: slice) -> Tensor | None:
        """The array in which a chunk's gradient is best put for the products: half precision where the device can widen."""
        num_rows = rows.stop - rows.start
        if not widens(self.policy.weight):
            return None
        if self._room is None or len(self._room) < num_rows:
            self._room = aligned_rows(num_rows, self.policy)
        return self._room[:num_rows]

    def add(self, rows: slice, grad: Tensor) -> None:
        """Take in the gradient of some rows of logits; each row once."""
        first = not self._begun
        if first:
            self._begin()
        grad = operand_of(grad, self.policy.weight)
        if self.hidden is not None:
            grad_hidden_into(self.hidden[rows], grad, self.policy.weight)
        if self.weight is not None:
            total = self.weight[: self.policy.num_vocab]
            add_grad_weight(total, grad, self.policy.hidden[rows], first=first)

    def _begin(self) -> None:
        """Room for the sums, without zeros: every row of hidden states comes once, and the first chunk has every token."""
        self._begun = True
        made = [
            None if size is None else torch.empty(*size, dtype=self.policy.dtype, device=self.policy.device)
            for size in self._sizes
        ]
        self.hidden, self.weight = made
        if self.weight is not None and len(self.weight) > self.policy.num_vocab:
            self.weight[self.policy.num_vocab :].zero_()

    def cast(self, factor: Tensor | None = None) -> tuple[Tensor | None, Tensor | None]:
        """Times ``factor``, in place, then in the dtypes of hidden states and weight."""
        self._room = None
        if not self._begun:  # no rows at all
            self._begin()
            if self.weight is not None:
                self.weight.zero_()
        grads = []
        for grad, dtype in zip((self.hidden, self.weight), self.dtypes, strict=True):
            grads.append(None if grad is None else _scaled(grad, factor, dtype))
        return grads[0], grads[1]


class HeldGradients:
    """``HeadGradients`` that keeps the gradients of all logits, in half precision: each product is taken once, at full size.

    A sum over chunks reads and writes a float32 array as large as the weight for every chunk. The products wait for the
    backward, so that its factor goes into the hidden states instead of through an array of the weight's size.
    """

    def __init__(self, policy: HeadLogits, hidden: Tensor, weight: Tensor, for_hidden: bool, for_weight: bool) -> None:
        self.policy, self.for_hidden, self.for_weight = policy, for_hidden, for_weight
        self.dtypes, self.num_weight_rows = (hidden.dtype, weight.dtype), len(weight)
        self._gradients = aligned_rows(len(hidden), policy)

    def room(self, rows: slice) -> Tensor:
        """The array in which the rows' gradient is put."""
        return self._gradients[rows]

    def add(self, rows: slice, grad: Tensor) -> None:
        """Nothing to do: the gradient is in ``room`` already."""

    def cast(self, factor: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The two products, times ``factor``, in the dtypes of hidden states and weight."""
        policy, gradients = self.policy, self._gradients
        grad_hidden = grad_weight = None
        if self.for_hidden:
            wide = torch.empty(policy.hidden.shape, dtype=policy.dtype, device=policy.device)
            grad_hidden_into(wide, gradients, policy.weight)
            grad_hidden = _scaled(wide, factor, self.dtypes[0])
        if self.for_weight:
            width = policy.weight.shape[1]
            grad_weight = torch.empty(self.num_weight_rows, width, dtype=self.dtypes[1], device=policy.device)
            if len(grad_weight) > policy.num_vocab:
                grad_weight[policy.num_vocab :].zero_()
            scaled = (policy.hidden * factor).to(policy.hidden.dtype)
            grad_weight_into(grad_weight[: policy.num_vocab], gradients, scaled)
        return grad_hidden, grad_weight


def worth_holding(policy: HeadLogits, for_weight: bool) -> bool:
    """Few tokens for the head's width, in bf16: float16 could not take the factor into the hidden states."""
    num_tokens, width = policy.hidden.shape
    bf16 = policy.weight.dtype is torch.bfloat16
    return for_weight and bf16 and widens(policy.weight) and num_tokens <= HELD_PER_WIDTH * width


def _scaled(grad: Tensor, factor: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The gradient times the factor: in place if the dtype stays, else in one pass that multiplies and rounds."""
    if factor is None:
        return grad.to(dtype)
    return torch.mul(grad, factor, out=grad if grad.dtype is dtype else torch.empty_like(grad, dtype=dtype))
