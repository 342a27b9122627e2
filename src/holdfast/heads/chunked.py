"""Token statistics without the logits: chunk by chunk in the forward, and again in the backward (6 products)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from holdfast.heads.anchor import Reference
from holdfast.heads.products import add_grad_weight, grad_hidden_into, logits_dtype, operand_dtype, operand_of
from holdfast.heads.sources import HeadLogits, head_logits
from holdfast.heads.stats import DIFFERENTIABLE, TokenStats
from holdfast.heads.walk import Walk
from holdfast.heads.want import Want


def chunked_stats(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    reference: Reference | None,
    want: Want,
    *,
    chunk_tokens: int | None,
    num_vocab: int | None,
) -> TokenStats:
    """See ``token_stats``. Gradients flow to ``hidden`` and ``weight`` once (no double backward)."""
    plan = _Plan(want, targets, reference, operand_dtype(hidden, weight), chunk_tokens, num_vocab)
    found = dict(zip((*DIFFERENTIABLE, "top", "logp_ref", "top_ref"), _Stats.apply(hidden, weight, plan), strict=True))
    return TokenStats(**found)


class _Plan:
    """What both passes walk over. Nothing here gets a gradient."""

    def __init__(
        self,
        want: Want,
        targets: Tensor,
        reference: Reference | None,
        dtype: torch.dtype,
        chunk_tokens: int | None,
        num_vocab: int | None,
    ) -> None:
        self.want, self.targets, self.reference, self.dtype = want, targets, reference, dtype
        self.chunk_tokens, self.num_vocab = chunk_tokens, num_vocab

    def walk(self, policy: HeadLogits) -> Walk:
        return Walk(
            policy, self.reference, self.targets, self.want, chunk_tokens=self.chunk_tokens, num_vocab=self.num_vocab
        )


class _Stats(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, plan: _Plan) -> tuple[Tensor | None, ...]:
        ctx.save_for_backward(hidden, weight)
        ctx.plan = plan
        ctx.set_materialize_grads(False)
        policy = head_logits(hidden, weight, plan.dtype, plan.num_vocab)
        with torch.autocast(hidden.device.type, enabled=False):
            parts = [stats for _, _, stats in plan.walk(policy)]
        stats = TokenStats.cat(parts) if parts else plan.walk(policy).nothing()
        fixed = (stats.top, stats.logp_ref, stats.top_ref)
        ctx.mark_non_differentiable(*(value for value in fixed if value is not None))
        return (*(getattr(stats, name) for name in DIFFERENTIABLE), *fixed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        hidden, weight = ctx.saved_tensors
        slopes = {name: g for name, g in zip(DIFFERENTIABLE, upstream, strict=False) if g is not None}
        with torch.autocast(hidden.device.type, enabled=False):
            taken = HeadGradients(hidden, weight, ctx.plan.dtype, ctx.plan.num_vocab, *ctx.needs_input_grad[:2])
            for rows, chunk, _ in ctx.plan.walk(taken.policy):
                taken.add(rows, chunk.gradient({name: g[rows] for name, g in slopes.items()}))
        return (*taken.cast(), None)


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
