"""What every decoder does with a batch: prompts side by side, and the logits of the next token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def padded_left(prompts: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """ids [B, T], and which of them were given, [B, T]: the others are padding."""
    width = max(map(len, prompts))
    ids = torch.tensor([[pad_id] * (width - len(row)) + list(row) for row in prompts])
    given = torch.tensor([[False] * (width - len(row)) + [True] * len(row) for row in prompts])
    return ids.to(device), given.to(device)


def positions_of(given: Tensor) -> Tensor:
    """Counted from the first token that was given; [B, T]."""
    return (given.long().cumsum(1) - 1).clamp(min=0)


def next_logits(model: Any, ids: Tensor, mask: Tensor | None, positions: Tensor, cache: Any) -> Tensor:
    """Feed ids [B, T], whose keys and values the cache keeps; the logits after the last, [B, V]."""
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    logits: Tensor = output.logits[:, -1]
    return logits
