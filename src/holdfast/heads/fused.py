"""A token-separable loss with its gradient taken in the forward: 4 products, one chunk of logits alive.

The chunked backend needs the logits again in its backward. Here the objective is known in the forward, and its gradient
in the logits needs only its slopes in a few 1-D statistics (``logit_chunk``), so each chunk is finished at once. The
backward multiplies by the upstream scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from holdfast.heads.anchor import Reference
from holdfast.heads.head_gradients import HeadGradients, HeldGradients, worth_holding
from holdfast.heads.products import operand_dtype
from holdfast.heads.sources import GivenLogits, Source, head_logits
from holdfast.heads.stats import DIFFERENTIABLE, TokenStats
from holdfast.heads.walk import Walk
from holdfast.heads.want import Want

Objective = Callable[[TokenStats, slice], Tensor]
"""(statistics of some tokens, which of the N rows they are) -> the loss of each, from its own statistics alone."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows start..stop that share an objective: a stream's tokens. The reference has the group's rows only."""

    start: int
    stop: int
    objective: Objective
    reference: Reference | None = None
    soften: float | None = None
    want: Collection[str] | None = None  # statistics to take besides logp and top; None: all there are


class FusedLoss(NamedTuple):
    """``loss`` = sum of scale * per_token, differentiable; the rest is detached. ``stats``: one per group."""

    loss: Tensor
    per_token: Tensor
    stats: list[TokenStats]
    grad_norm: Tensor | None  # |d loss_t / d logits| of every token, without the scale


def fused_loss(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    groups: Sequence[Group],
    *,
    scale: Tensor,
    chunk_tokens: int | None = None,
    num_vocab: int | None = None,
    want_grad_norm: bool = False,
    backend: str = "auto",
) -> FusedLoss:
    """The summed loss of hidden states [N, H] under a head [V, H], objective by objective.

    Differentiable once in ``hidden`` and ``weight``; a weight that needs no gradient saves its product. ``scale`` [N]
    is a constant: stream weight / token count.
    """
    for_hidden, for_weight = (torch.is_grad_enabled() and x.requires_grad for x in (hidden, weight))
    policy = head_logits(hidden, weight, operand_dtype(hidden, weight), num_vocab)
    sink = None
    if for_hidden or for_weight:
        kind = HeldGradients if worth_holding(policy, for_weight) else HeadGradients
        sink = kind(policy, hidden, weight, for_hidden, for_weight)
    passed = _Pass(policy, targets, scale, sink, chunk_tokens, num_vocab, want_grad_norm, backend)
    return passed.over(groups, made_of=(hidden, weight))


def loss_from_logits(
    logits: Tensor,
    targets: Tensor,
    groups: Sequence[Group],
    *,
    scale: Tensor,
    chunk_tokens: int | None = None,
    want_grad_norm: bool = False,
    backend: str = "auto",
) -> FusedLoss:
    """``fused_loss`` of logits [N, V] that a model has made itself (soft-capped, with a bias, ...).

    References are ``Reference(logits=...)`` or cached.
    """
    sink = _LogitGradients(logits) if torch.is_grad_enabled() and logits.requires_grad else None
    policy = GivenLogits(logits.detach())
    passed = _Pass(policy, targets, scale, sink, chunk_tokens, None, want_grad_norm, backend)
    return passed.over(groups, made_of=(logits,))


class _LogitGradients:
    """``HeadGradients`` where the logits are given: they are their own gradient's place."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = torch.zeros_like(logits)

    def room(self, rows: slice) -> Tensor | None:
        return None

    def add(self, rows: slice, grad: Tensor) -> None:
        self.logits[rows] = grad

    def cast(self, factor: Tensor) -> tuple[Tensor | None, ...]:
        return (self.logits.mul_(factor),)


_Sink = HeadGradients | HeldGradients | _LogitGradients
"""Takes the gradient of each chunk of logits, and gives the gradient of what they were made of."""


@dataclass(frozen=True, slots=True)
class _Pass:
    policy: Source
    targets: Tensor
    scale: Tensor
    sink: _Sink | None
    chunk_tokens: int | None
    num_vocab: int | None
    want_grad_norm: bool
    backend: str

    def over(self, groups: Sequence[Group], made_of: tuple[Tensor, ...]) -> FusedLoss:
        """The loss of all groups. ``made_of``: what the policy's logits were made of, where the gradient goes."""
        ends = [0, *(group.stop for group in groups)]
        assert [group.start for group in groups] == ends[:-1], "groups follow one another"
        assert ends[-1] == len(self.targets) == len(self.scale), "and cover every row"
        with torch.no_grad(), torch.autocast(self.policy.device.type, enabled=False):
            result, unit = self._summed(groups)
        if self.sink is None:
            return result
        return result._replace(loss=_GradientTaken.apply(result.loss, self.sink, unit, *made_of))

    def _summed(self, groups: Sequence[Group]) -> tuple[FusedLoss, Tensor | None]:
        """The loss without a gradient, and the unit in which its gradient is gathered (``_unit``), if there is one."""
        scale = self.scale.to(self.policy.dtype)
        unit = _unit(scale) if self.policy.made_of is torch.float16 else None
        relative = scale if unit is None else scale / unit
        grad_norm = torch.zeros_like(scale) if self.want_grad_norm and self.sink is not None else None
        losses: list[Tensor] = []
        stats = [self._one(group, relative, losses, grad_norm) for group in groups]
        per_token = torch.cat(losses) if losses else torch.zeros_like(scale)
        return FusedLoss((scale * per_token).sum(), per_token, stats, grad_norm), unit

    def _one(self, group: Group, relative: Tensor, losses: list[Tensor], grad_norm: Tensor | None) -> TokenStats:
        """Walk over one group's chunks, adding to ``losses`` and writing its rows of ``grad_norm``.

        A chunk costs the host some forty calls; where a head is narrow the device is done with one in a millisecond, so
        each call counts: nothing here asks the device for a value.
        """
        want = Want.make(group.reference, group.want, group.soften)
        if group.reference is not None:
            assert group.reference.num_rows == group.stop - group.start, "a reference has its group's rows"
        targets = self.targets[group.start : group.stop]
        parts = []
        walk = Walk(group.reference, targets, want, self.chunk_tokens, self.num_vocab, self.backend, start=group.start)
        for within, chunk, stats in walk.over(self.policy):
            rows = slice(group.start + within.start, group.start + within.stop)
            parts.append(stats)
            loss, slopes = _slopes(group.objective, stats, rows, self.sink is not None)
            losses.append(loss.to(relative.dtype))
            if self.sink is not None:
                norm = None if grad_norm is None else grad_norm[rows]
                grad = chunk.gradient(slopes, scale=relative[rows], norm=norm, out=self.sink.room(rows))
                self.sink.add(rows, grad)
        return walk.joined(parts, self.policy)


def _unit(scale: Tensor) -> Tensor:
    """What gradients are gathered in where the operands are float16, the power of two next to the largest scale:
    1 / token count itself would underflow there, and a power of two rounds nothing."""
    if len(scale) == 0:
        return scale.new_ones(())
    return torch.ldexp(scale.new_ones(()), torch.frexp(scale.abs().amax()).exponent)


def _slopes(objective: Objective, stats: TokenStats, rows: slice, wanted: bool) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of every token, and its derivative in each statistic it reads."""
    if not wanted:
        return objective(stats, rows), {}
    leaves = {name: value for name in DIFFERENTIABLE if (value := getattr(stats, name)) is not None}
    for value in leaves.values():
        value.requires_grad_()
    # Single-threaded: handing a few 1-D operations to the engine's device thread costs more than they do.
    with torch.enable_grad(), torch.autograd.set_multithreading_enabled(False):
        loss = objective(stats, rows)
        assert loss.shape == stats.logp.shape, "an objective gives one loss per token"
        slopes: Sequence[Tensor | None] = [None] * len(leaves)
        if loss.requires_grad:
            ones = torch.ones_like(loss)  # not loss.sum(), whose gradient is an expanded scalar: two launches more
            slopes = torch.autograd.grad(loss, list(leaves.values()), ones, allow_unused=True)
    for value in leaves.values():
        value.requires_grad_(False)
    return loss.detach(), {name: slope for name, slope in zip(leaves, slopes, strict=True) if slope is not None}


class _GradientTaken(torch.autograd.Function):
    """A value whose gradient is known already."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, sink: _Sink, unit: Tensor | None, *inputs: Tensor) -> Tensor:  # noqa: ARG004
        ctx.sink, ctx.unit = sink, unit
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.sink is None:
            raise RuntimeError("the fused loss gives its gradient once; call it again, or use token_stats")
        sink, ctx.sink = ctx.sink, None  # in-place below: the gradient is as large as the head itself
        return (None, None, None, *sink.cast(upstream if ctx.unit is None else upstream * ctx.unit))
