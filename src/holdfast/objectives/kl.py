"""Staying near the anchor by divergence."""

from __future__ import annotations

from torch import Tensor

from holdfast.heads import TokenStats
from holdfast.objectives.objective import Objective


def kl_sft(stats: TokenStats, *, kl_weight: float = 1.0) -> Tensor:
    """-logp + kl_weight KL(policy || anchor): the baseline."""
    return -stats.logp + kl_weight * stats.need("kl")


def distill(stats: TokenStats) -> Tensor:
    """KL(anchor || policy) over the full vocabulary: for streams held to the anchor. The target token plays no part."""
    return stats.need("kl_rev")


OBJECTIVES = (
    Objective("kl_sft", kl_sft, reads=("logp", "kl")),
    Objective("distill", distill, reads=("kl_rev",)),
)
