"""How deep a change goes: the divergence from the anchor by position in the answer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.heads import Reference, stats_from_logits
from holdfast.models import LoadedModel
from holdfast.records import Role, Trace
from holdfast.tokens import TokenBatch, answer_positions, pad, tokenize_all


@torch.inference_mode()
def kl_by_position(
    policy: LoadedModel, anchor: LoadedModel, rows: Sequence[Trace], *, batch_size: int = 64
) -> tuple[float, ...]:
    """Mean KL(policy || anchor) at answer token 1, 2, ... of these rows, both models reading the same answers."""
    token_rows, _ = tokenize_all(rows, policy.tokenizer)
    sums, counts = torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
    for start in range(0, len(token_rows), batch_size):
        batch = pad(token_rows[start : start + batch_size], policy.tokenizer.pad_token_id or 0)
        is_target = (batch.roles != Role.PROMPT)[:, 1:]
        position = answer_positions(batch.roles)[:, 1:][is_target]
        targets = batch.ids[:, 1:][is_target].to(policy.device)
        reference = Reference(logits=_logits(anchor, batch, is_target).to(policy.device))
        stats = stats_from_logits(_logits(policy, batch, is_target), targets, reference, want=("kl",))
        sums, counts = _longer(sums, position), _longer(counts, position)
        sums.index_add_(0, position, stats.need("kl").double().cpu())
        counts.index_add_(0, position, torch.ones(len(position), dtype=torch.float64))
    return tuple((sums / counts.clamp(min=1)).tolist())


def _logits(loaded: LoadedModel, batch: TokenBatch, is_target: Tensor) -> Tensor:
    """Logits [N, V] of the tokens that are answers; each is predicted from the token before it."""
    inputs = {name: v.to(loaded.device) if isinstance(v, Tensor) else v for name, v in batch.model_inputs().items()}
    logits: Tensor = loaded.model(**inputs).logits[:, :-1]
    return logits[is_target.to(loaded.device)]


def _longer(values: Tensor, position: Tensor) -> Tensor:
    missing = int(position.max()) + 1 - len(values)
    return values if missing <= 0 else torch.cat([values, values.new_zeros(missing)])
