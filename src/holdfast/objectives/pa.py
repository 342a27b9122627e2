"""Preference alignment ([002] eq. 3-7): where policy and anchor would say different tokens, prefer the anchor's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from torch import Tensor
from torch.nn.functional import logsigmoid

from holdfast.config import InputError, nearest_or_all
from holdfast.heads import TokenStats
from holdfast.objectives.csft import QI_2024, Beta, csft, csft_weight
from holdfast.objectives.objective import Objective

KlMode = Literal["grad", "detach", "ignore"]


def pa(stats: TokenStats, *, kl: KlMode = "grad", kl_clip: float | None = None) -> Tensor:
    """-logsigmoid(mu_t delta_t), mu_t = KL(policy || anchor) ([002] eq. 3-6).

    Where the two argmaxes agree it is the constant log 2 with no gradient. As printed, the gradient flows through mu_t
    too (``kl="grad"``); ``"detach"`` stops it there, ``"ignore"`` sets mu_t = 1; ``kl_clip`` caps mu_t ([002] A.1,
    assumption 8). The softened argmax of [002] A.2 is ``soften`` of the token statistics.
    """
    delta = stats.need("delta")
    return -logsigmoid(_strength(stats, kl, kl_clip) * delta)  # eq. 5


def csft_pa(
    stats: TokenStats,
    *,
    position: Tensor,
    pa_weight: float = 0.1,
    beta: Beta = QI_2024,
    floor: float = 0.0,
    kl: KlMode = "grad",
    kl_clip: float | None = None,
) -> Tensor:
    """csft + delta_epoch pa ([002] eq. 1). ``pa_weight`` is delta_epoch: see ``pa_weight_at``."""
    constrained = csft(stats, position=position, beta=beta, floor=floor)
    return constrained + pa_weight * pa(stats, kl=kl, kl_clip=kl_clip)  # eq. 1


def pa_weight_at(epoch: float, max_epoch: float) -> float:
    """delta_epoch = 0.1 + 0.2 epoch / max_epoch ([002] eq. 7). A coefficient, not a share of the loss."""
    return 0.1 + 0.2 * epoch / max_epoch  # eq. 7


def pa_active(stats: TokenStats) -> Tensor:
    """Where pa has a gradient: policy and anchor disagree about the most likely token."""
    return stats.top != stats.need("top_ref")


def _strength(stats: TokenStats, mode: KlMode, clip: float | None) -> Tensor | float:
    """mu_t (eq. 6)."""
    if mode == "ignore":
        return 1.0
    if mode not in get_args(KlMode):
        raise InputError(f"kl: unknown '{mode}'{nearest_or_all(mode, get_args(KlMode))}")
    strength = stats.need("kl")
    if mode == "detach":
        strength = strength.detach()
    return strength if clip is None else strength.clamp(max=clip)


def _kl(stats: TokenStats) -> Tensor:
    return stats.need("kl")


def _above_idle(stats: TokenStats, *, kl: KlMode = "grad", kl_clip: float | None = None) -> Tensor:
    """How far pa is above log 2, its value where policy and anchor agree on the most likely token."""
    return pa(stats, kl=kl, kl_clip=kl_clip) - math.log(2)


def _unread(options: Mapping[str, Any]) -> tuple[str, ...]:
    return ("kl",) if options.get("kl") == "ignore" else ()


# A checkpoint keeps the sums of the gauges in this order.
OBJECTIVES = (
    Objective("pa", pa, reads=("kl", "delta"), gauges={"kl": _kl, "pa_minus_log2": _above_idle}, unread=_unread),
    Objective(
        "csft_pa",
        csft_pa,
        reads=("logp", "logp_ref", "kl", "delta"),
        gauges={"w": csft_weight, "kl": _kl, "pa_minus_log2": _above_idle},
        schedule={"pa_weight": lambda progress: pa_weight_at(progress, 1.0)},
        unread=_unread,
        expected="csft plus preference for the anchor's tokens",
    ),
)
