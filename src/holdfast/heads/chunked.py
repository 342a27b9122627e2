"""``token_stats``: without the logits, chunk by chunk in the forward, and again in the backward (6 products)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from holdfast.config import InputError
from holdfast.heads.anchor import Reference
from holdfast.heads.choose import chunk_class
from holdfast.heads.head_gradients import HeadGradients
from holdfast.heads.products import operand_dtype
from holdfast.heads.sources import head_logits
from holdfast.heads.stats import DIFFERENTIABLE, TokenStats
from holdfast.heads.walk import Walk
from holdfast.heads.want import Want
from holdfast.heads.whole_logits import check_rows, reference_stats


def token_stats(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    ref_hidden: Tensor | None = None,
    ref_weight: Tensor | None = None,
    ref_logp: Tensor | None = None,
    ref_top: Tensor | None = None,
    chunk_tokens: int | None = None,
    backend: str = "auto",
    soften: float | None = None,
    num_vocab: int | None = None,
    want: Collection[str] | None = None,
) -> TokenStats:
    """Token statistics (MATH §1) of N tokens from hidden states [N, H], a head's weight [V, H] and targets [N].

    Gradients flow to ``hidden`` and ``weight``, never to the anchor. The anchor is ``ref_hidden`` with ``ref_weight``
    (None: the policy's own head, detached), or ``ref_logp`` and ``ref_top`` from a cache (kl and kl_rev are None then).

    - ``backend``: ``auto`` takes the Triton kernels on a GPU and plain torch elsewhere;
    - ``chunk_tokens``: tokens whose logits are alive at a time; None: as many as a byte budget allows;
    - ``soften``: delta with softmaxes of this temperature in place of the argmaxes (MATH §2);
    - ``num_vocab``: rows of the head from there on are padding and count for nothing;
    - ``want``: only these statistics besides logp and top; None: all there are.

    Raises ``InputError`` for tensors that do not fit together, and for targets that are no token, such as -100.
    """
    reference = None
    if any(given is not None for given in (ref_hidden, ref_weight, ref_logp, ref_top)):
        reference = Reference(hidden=ref_hidden, weight=ref_weight, logp=ref_logp, top=ref_top)
    check_rows("token_stats: hidden", hidden, targets, reference)
    _check_ids(targets, len(weight[:num_vocab]))
    wanted = Want.make(reference, want, soften)
    chunk_class(backend, hidden.device, wanted)  # says at once what is wrong with the name
    if backend == "reference":
        return reference_stats(hidden, weight, targets, reference, wanted, num_vocab=num_vocab)
    walk = Walk(reference, targets, wanted, chunk_tokens, num_vocab, backend)
    columns = _Stats.apply(hidden, weight, walk, operand_dtype(hidden, weight))
    return TokenStats(**dict(zip((*DIFFERENTIABLE, "top", "logp_ref", "top_ref"), columns, strict=True)))


def _check_ids(targets: Tensor, num_vocab: int) -> None:
    if len(targets) == 0:
        return
    low, high = (int(end) for end in targets.aminmax())
    if low < 0 or high >= num_vocab:
        wrong = low if low < 0 else high
        raise InputError(
            f"token_stats: a target is {wrong}, and the head has {num_vocab} tokens;"
            " give only the tokens that count: hidden[keep], targets[keep] with keep = targets != -100"
        )


class _Stats(torch.autograd.Function):
    """The columns of TokenStats. Differentiable once, in ``hidden`` and ``weight``."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, walk: Walk, dtype: torch.dtype) -> tuple[Tensor | None, ...]:
        ctx.save_for_backward(hidden, weight)
        ctx.walk, ctx.dtype = walk, dtype
        ctx.set_materialize_grads(False)
        policy = head_logits(hidden, weight, dtype, walk.num_vocab)
        with torch.autocast(hidden.device.type, enabled=False):
            parts = [stats for _, _, stats in walk.over(policy)]
        stats = walk.joined(parts, policy)
        fixed = (stats.top, stats.logp_ref, stats.top_ref)
        ctx.mark_non_differentiable(*(value for value in fixed if value is not None))
        return (*(getattr(stats, name) for name in DIFFERENTIABLE), *fixed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden, weight = ctx.saved_tensors
        slopes = {name: g for name, g in zip(DIFFERENTIABLE, upstream, strict=False) if g is not None}
        with torch.autocast(hidden.device.type, enabled=False):
            policy = head_logits(hidden, weight, ctx.dtype, ctx.walk.num_vocab)
            taken = HeadGradients(policy, hidden, weight, *ctx.needs_input_grad[:2])
            for rows, chunk, _ in ctx.walk.over(policy):
                own = {name: g[rows] for name, g in slopes.items()}
                taken.add(rows, chunk.gradient(own, out=taken.room(rows)))
        return (*taken.cast(), None, None)
