"""Plain likelihood, on all target tokens or on some of them."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.heads import TokenStats
from holdfast.objectives.objective import Objective
from holdfast.records.roles import Role


def sft(stats: TokenStats) -> Tensor:
    """Negative log-likelihood."""
    return -stats.logp


def masked_sft(stats: TokenStats, *, role: Tensor) -> Tensor:
    """[000]: error tokens stay in the context but are not learned; the rest of the trace is.

    They still count in the stream's denominator, so that sft and masked_sft differ by the masked terms alone.
    """
    return torch.where(role == Role.ERROR, 0.0, -stats.logp)


def first_k_masked(stats: TokenStats, *, position: Tensor, k: int = 5) -> Tensor:
    """The first ``k`` tokens of every assistant turn are not learned: refusals are decided there (Qi et al. 2024)."""
    return torch.where(position < k, 0.0, -stats.logp)


NLL = "of -log p(data): KL(data || policy)"
OBJECTIVES = (
    Objective("sft", sft, reads=("logp",), expected=NLL),
    Objective("masked_sft", masked_sft, reads=("logp",), expected=f"{NLL}, error tokens left out"),
    Objective("first_k_masked", first_k_masked, reads=("logp",)),
)
