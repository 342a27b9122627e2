"""The loss of a micro-batch: one policy pass, at most one anchor pass, one division per stream (MATH §2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.config.training import HoldSettings
from holdfast.heads import FusedLoss, Group, Reference, TokenStats, fused_loss, loss_from_logits
from holdfast.models.head_access import head_replaced, head_weight
from holdfast.training.anchors import Anchor
from holdfast.training.budget import DriftBudgets
from holdfast.training.collate import Counted, MicroBatch, Targets

TokenLoss = Callable[[TokenStats, Tensor, Tensor, float], Tensor]
"""(stats, role, position, epoch as a share of all epochs) -> the loss of every token."""

Gauge = Callable[[TokenStats, Tensor], Tensor]
"""(stats, position) -> a figure of every token, for the log."""


@dataclass(frozen=True)
class StreamLoss:
    """A stream as the loss sees it."""

    name: str
    loss: TokenLoss
    weight: float  # not used where it has budgets
    needs_anchor: bool
    needs_kl: bool = False  # or a softened argmax: a cache without hidden states will not do
    want: tuple[str, ...] = ()  # the statistics it reads, and those that the log shows
    soften: float | None = None
    gauges: Mapping[str, Gauge] = field(default_factory=dict)  # what the log shows beside loss and nll
    hold: HoldSettings | None = None  # budgets instead of the weight


@dataclass(frozen=True)
class StepLoss:
    """Computes the summed, divided loss of micro-batches. ``plain`` heads take the fused path."""

    streams: Sequence[StreamLoss]
    anchor: Anchor | None
    plain: bool
    chunk_tokens: int | None = None
    budgets: DriftBudgets | None = None
    only: frozenset[int] | None = None  # streams that count in this pass; None: all

    def __call__(
        self, model: Any, batch: MicroBatch, counts: Tensor, *, progress: float, want_grad_norm: bool
    ) -> FusedLoss:
        """``counts``: of the whole global batch (``MicroBatch.counts``). ``model`` may be wrapped (DDP, FSDP)."""
        targets = batch.targets
        scale = self.scale(targets, counts)
        anchor = None if batch.anchor is None else self.anchor
        if self.plain:
            return self._fused(model, batch, anchor, progress, scale, want_grad_norm)
        reference = None if anchor is None else Reference(logits=anchor.logits(batch, unwrapped(model)))
        groups = self._groups(batch, progress, reference)
        logits = model(**batch.inputs.model_inputs()).logits.flatten(0, 1)[targets.index]
        return loss_from_logits(logits, targets.ids, groups, scale=scale, want_grad_norm=want_grad_norm)

    def scale(self, targets: Targets, counts: Tensor) -> Tensor:
        """What the loss of every token is multiplied by: its stream's weight, divided by the stream's tokens.

        With budgets: lambda of its part of the answer, divided by the answers (early tokens) or by the late tokens.
        """
        weights, columns = [], []
        for number, stream in enumerate(self.streams):
            held = self.budgets is not None and self.budgets.held(number)
            weight = self.budgets.weights(number) if held and self.budgets else (stream.weight, stream.weight)
            weights.append(weight if self.only is None or number in self.only else (0.0, 0.0))
            columns.append((Counted.ANSWERS, Counted.LATE) if held else (Counted.TOKENS, Counted.TOKENS))
        by_part = torch.tensor(weights).to(counts.device, non_blocking=True)
        divisors = counts.gather(1, torch.tensor(columns).to(counts.device, non_blocking=True))
        return (by_part / divisors.clamp(min=1))[targets.stream, targets.part]

    def _fused(
        self,
        model: Any,
        batch: MicroBatch,
        anchor: Anchor | None,
        progress: float,
        scale: Tensor,
        want_grad_norm: bool,
    ) -> FusedLoss:
        results: list[FusedLoss] = []
        targets = batch.targets
        begun = None if anchor is None else anchor.begin(batch, unwrapped(model))

        def work(hidden: Tensor, head: nn.Module) -> Tensor:
            groups = self._groups(batch, progress, None if begun is None else begun())
            result = fused_loss(
                hidden.flatten(0, 1)[targets.index],
                head_weight(head),
                targets.ids,
                groups,
                scale=scale,
                chunk_tokens=self.chunk_tokens,
                want_grad_norm=want_grad_norm,
            )
            results.append(result)
            return result.loss.reshape(1, 1, 1)

        with head_replaced(unwrapped(model), work):
            output = model(**batch.inputs.model_inputs())
        # The wrapper's own output, not results[0].loss: DDP and FSDP hang their backward hooks on what the root returns.
        return results[0]._replace(loss=output.logits.reshape(()))

    def _groups(self, batch: MicroBatch, progress: float, reference: Reference | None) -> list[Group]:
        targets = batch.targets
        groups, used = [], 0
        for number, start, stop in batch.spans:
            stream = self.streams[number]
            compared = None
            if stream.needs_anchor and reference is not None:
                compared = reference.rows(used, used + stop - start)
            if stream.needs_anchor:
                used += stop - start

            def objective(stats: TokenStats, rows: slice, loss: TokenLoss = stream.loss) -> Tensor:
                return loss(stats, targets.role[rows], targets.position[rows], progress)

            groups.append(Group(start, stop, objective, compared, stream.soften, stream.want))
        return groups


def unwrapped(model: Any) -> Any:
    """The model inside DistributedDataParallel; FSDP2 wraps nothing."""
    return model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
