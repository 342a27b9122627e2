"""The few numbers per token that every objective reads (MATH §1)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenStats:
    """1-D tensors over the tokens given. Those that need an anchor are None without one."""

    logp: Tensor
    entropy: Tensor
    top: Tensor
    logp_ref: Tensor | None = None
    kl: Tensor | None = None  # KL(policy || anchor)
    kl_rev: Tensor | None = None  # KL(anchor || policy)
    delta: Tensor | None = None  # a[top_ref] - a[top], never positive
    top_ref: Tensor | None = None
