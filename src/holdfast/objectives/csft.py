"""Constrained SFT ([002] eq. 2, after Qi et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from holdfast.config import InputError, nearest_or_all
from holdfast.heads import TokenStats
from holdfast.objectives.objective import Objective
from holdfast.objectives.sft import NLL


@dataclass(frozen=True, slots=True)
class BetaSchedule:
    """How hard each token of an assistant turn is held: beta_t by position, 0 = the turn's first token with text."""

    first: float = 0.5
    early: float = 2.0  # tokens 2 to ``num_early``
    late: float = 0.1
    num_early: int = 5

    def __call__(self, position: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """beta_t of every token."""
        beta = torch.full(position.shape, self.late, dtype=dtype, device=position.device)
        return beta.masked_fill_(position < self.num_early, self.early).masked_fill_(position == 0, self.first)


QI_2024 = BetaSchedule()
Beta = BetaSchedule | Mapping[str, float] | float
"""A schedule, its fields as a mapping (so that YAML can write it), or one number for every token."""


def csft(stats: TokenStats, *, position: Tensor, beta: Beta = QI_2024, floor: float = 0.0) -> Tensor:
    """Constrained SFT ([002] eq. 2): tokens the policy already prefers more than the anchor does count less.

    The weight is detached, so this value is not the objective whose gradient it is; that one is
    -(2 / beta_t) logsigmoid(beta_t (logp - logp_ref)). At policy = anchor the weight is 1 and csft is sft.
    """
    return -csft_weight(stats, position=position, beta=beta, floor=floor) * stats.logp  # eq. 2


def csft_weight(stats: TokenStats, *, position: Tensor, beta: Beta = QI_2024, floor: float = 0.0) -> Tensor:
    """w_t = 2 sigmoid(-beta_t (logp - logp_ref)), detached. Qi et al.'s code floors it at 1e-3; the paper does not."""
    logp = stats.logp.detach()
    beta_t = _schedule(beta)(position, logp.dtype)
    weight = 2 * torch.sigmoid(beta_t * (stats.need("logp_ref") - logp))  # eq. 2
    return weight.clamp(min=floor) if floor else weight


def _schedule(beta: Beta) -> BetaSchedule:
    if isinstance(beta, BetaSchedule):
        return beta
    if not isinstance(beta, Mapping):
        return BetaSchedule(beta, beta, beta)
    known = [field.name for field in fields(BetaSchedule)]
    for name in beta:
        if name not in known:
            raise InputError(f"beta: no '{name}'{nearest_or_all(name, known)}")
    return BetaSchedule(**beta)  # type: ignore[arg-type]  # num_early is a whole number


OBJECTIVES = (
    Objective(
        "csft",
        csft,
        reads=("logp", "logp_ref"),
        gauges={"w": csft_weight},
        expected=f"{NLL}, weighed by distance from the anchor",
    ),
)
