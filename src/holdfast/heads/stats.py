"""The few numbers per token that every objective reads (MATH §1)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from holdfast.config import InputError

DIFFERENTIABLE = ("logp", "entropy", "kl", "kl_rev", "delta")
FROM_ANCHOR = ("logp_ref", "kl", "kl_rev", "delta", "top_ref")
FROM_ANCHOR_LOGITS = ("kl", "kl_rev")  # no cache of logp_ref and top_ref can give these


@dataclass(frozen=True, slots=True)
class TokenStats:
    """1-D tensors over the tokens given. Those that need an anchor are None without one."""

    logp: Tensor
    top: Tensor
    entropy: Tensor | None = None  # None only where it was not asked for
    logp_ref: Tensor | None = None
    kl: Tensor | None = None  # KL(policy || anchor)
    kl_rev: Tensor | None = None  # KL(anchor || policy)
    delta: Tensor | None = None  # a[top_ref] - a[top], never positive unless softened
    top_ref: Tensor | None = None

    def need(self, name: str) -> Tensor:
        """The statistic of that name. Raises ``InputError`` where it is missing."""
        value: Tensor | None = getattr(self, name)
        if value is None:
            if name in FROM_ANCHOR_LOGITS:
                raise InputError(
                    f"'{name}' is missing: it needs the anchor's hidden states or logits; a cache has no such"
                )
            raise InputError(f"'{name}' is missing: it needs {'an anchor' if name in FROM_ANCHOR else 'asking for'}")
        return value

    def only(self, names: Collection[str]) -> TokenStats:
        """logp, top and the statistics named."""
        kept = {field.name: getattr(self, field.name) for field in fields(TokenStats) if field.name in names}
        return TokenStats(**{**kept, "logp": self.logp, "top": self.top})

    @staticmethod
    def cat(parts: Sequence[TokenStats]) -> TokenStats:
        """Join the statistics of chunks of tokens, in order."""
        columns = {field.name: [getattr(part, field.name) for part in parts] for field in fields(TokenStats)}
        return TokenStats(**{name: torch.cat(parts) for name, parts in columns.items() if parts[0] is not None})
