"""Token statistics without the logits: chunk by chunk in the forward, and again in the backward (6 products)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from holdfast.heads.anchor import Reference
from holdfast.heads.head_gradients import HeadGradients
from holdfast.heads.products import operand_dtype
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
    backend: str = "auto",
) -> TokenStats:
    """See ``token_stats``. Gradients flow to ``hidden`` and ``weight`` once (no double backward)."""
    plan = _Plan(want, targets, reference, operand_dtype(hidden, weight), chunk_tokens, num_vocab, backend)
    columns = dict(
        zip((*DIFFERENTIABLE, "top", "logp_ref", "top_ref"), _Stats.apply(hidden, weight, plan), strict=True)
    )
    return TokenStats(**columns)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What both passes walk over. Nothing here gets a gradient."""

    want: Want
    targets: Tensor
    reference: Reference | None
    dtype: torch.dtype
    chunk_tokens: int | None
    num_vocab: int | None
    backend: str

    def walk(self, policy: HeadLogits) -> Walk:
        return Walk(policy, self.reference, self.targets, self.want, 0, self.chunk_tokens, self.num_vocab, self.backend)


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
            policy = head_logits(hidden, weight, ctx.plan.dtype, ctx.plan.num_vocab)
            taken = HeadGradients(policy, hidden, weight, *ctx.needs_input_grad[:2])
            for rows, chunk, _ in ctx.plan.walk(policy):
                own = {name: g[rows] for name, g in slopes.items()}
                taken.add(rows, chunk.gradient(own, out=taken.room(rows)))
        return (*taken.cast(), None)
