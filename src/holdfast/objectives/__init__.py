"""The loss of each token: pure functions of its statistics, keyword-only options, not reduced (MATH §2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from holdfast.heads import FROM_ANCHOR, FROM_ANCHOR_LOGITS
from holdfast.objectives.csft import QI_2024, BetaSchedule, csft, csft_weight
from holdfast.objectives.dft import dft
from holdfast.objectives.kl import distill, kl_sft
from holdfast.objectives.pa import csft_pa, pa, pa_active, pa_weight_at
from holdfast.objectives.sft import first_k_masked, masked_sft, sft

REGISTRY: dict[str, Callable[..., Tensor]] = {
    "sft": sft,
    "masked_sft": masked_sft,
    "first_k_masked": first_k_masked,
    "dft": dft,
    "csft": csft,
    "pa": pa,
    "csft_pa": csft_pa,
    "kl_sft": kl_sft,
    "distill": distill,
}

STATS: dict[str, tuple[str, ...]] = {
    "sft": ("logp",),
    "masked_sft": ("logp",),
    "first_k_masked": ("logp",),
    "dft": ("logp",),
    "csft": ("logp", "logp_ref"),
    "pa": ("kl", "delta"),
    "csft_pa": ("logp", "logp_ref", "kl", "delta"),
    "kl_sft": ("logp", "kl"),
    "distill": ("kl_rev",),
}
"""The statistics each objective reads. What else it takes (role, position, pa_weight) its signature says."""


def stats_read(name: str, options: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The statistics an objective reads under these options."""
    no_kl = (options or {}).get("kl") == "ignore"
    return tuple(stat for stat in STATS[name] if not (no_kl and stat == "kl"))


def needs_anchor(name: str) -> bool:
    """Whether there must be an anchor at all."""
    return not set(STATS[name]).isdisjoint(FROM_ANCHOR)


def needs_kl(name: str, options: Mapping[str, Any] | None = None) -> bool:
    """Whether the anchor's whole distribution is needed: hidden states or logits, not a cache of logp and top."""
    return not set(stats_read(name, options)).isdisjoint(FROM_ANCHOR_LOGITS)


__all__ = [
    "QI_2024",
    "REGISTRY",
    "STATS",
    "BetaSchedule",
    "csft",
    "csft_pa",
    "csft_weight",
    "dft",
    "distill",
    "first_k_masked",
    "kl_sft",
    "masked_sft",
    "needs_anchor",
    "needs_kl",
    "pa",
    "pa_active",
    "pa_weight_at",
    "sft",
    "stats_read",
]
