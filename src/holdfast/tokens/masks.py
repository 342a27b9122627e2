"""Attention masks of hard context, for the two attention implementations that read 4-D masks."""

from __future__ import annotations

import torch
from torch import Tensor


def hard_mask(until: Tensor, rows: Tensor) -> Tensor:
    """Boolean [B, 1, T, T]: query q sees key k of its own row when k <= q < until[k]. Right for sdpa only.

    ``until`` is that of ``stack_context``, counted along T; ``rows`` says which row a token belongs to (-1: padding).
    Padding sees padding, so that no query is left without a key: softmax over nothing is NaN.
    """
    index = torch.arange(until.shape[1], device=until.device)
    query, key = index[:, None], index[None, :]
    alive = (key <= query) & (query < until[:, None, :])
    return (alive & (rows[:, :, None] == rows[:, None, :])).unsqueeze(1)


def additive_mask(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The same mask for eager attention, which adds it to the scores (a boolean one would add 0 and 1).

    float32 serves every model dtype: eager attention takes its softmax in float32 anyway.
    """
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, torch.finfo(dtype).min)
