"""Attention masks of hard context, for the two attention implementations that read 4-D masks."""

from __future__ import annotations

import torch
from torch import Tensor


def hard_mask(until: Tensor) -> Tensor:
    """Boolean [B, 1, T, T]: query q sees key k when k <= q < until[k]. Right for sdpa only.

    ``until`` [B, T] is that of ``stack_context``, counted along T: no token outlives its own row, so packed rows are
    blind to each other. Padding lives on and sees padding: a query without any key would be NaN.
    """
    index = torch.arange(until.shape[1], device=until.device)
    query, key = index[:, None], index[None, :]
    return ((key <= query) & (query < until[:, None, :])).unsqueeze(1)


def additive_mask(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The same mask for eager attention, which adds it to the scores (a boolean one would add 0 and 1).

    float32 serves every model dtype: eager attention takes its softmax in float32 anyway.
    """
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, torch.finfo(dtype).min)
