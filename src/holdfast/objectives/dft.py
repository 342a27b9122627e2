"""Dynamic fine-tuning."""

from __future__ import annotations

from torch import Tensor

from holdfast.heads import TokenStats
from holdfast.objectives.objective import Objective


def dft(stats: TokenStats) -> Tensor:
    """-sg(p) log p ([004] eq. 24, Lemma 4): tokens the policy finds unlikely count less.

    The stop-gradient matters: without it the gradient would be -(1 + log p) grad p.
    """
    return -stats.logp.detach().exp() * stats.logp  # eq. 24


OBJECTIVES = (Objective("dft", dft, reads=("logp",), expected="of minus the sum of token probabilities"),)
