"""Token statistics from hidden states, without the logits.

``token_stats`` gives the statistics themselves; ``fused_loss`` takes a loss written on them, its gradient with it.
"""

from holdfast.heads.anchor import Reference
from holdfast.heads.choose import BACKENDS
from holdfast.heads.chunked import token_stats
from holdfast.heads.fused import FusedLoss, Group, fused_loss, loss_from_logits
from holdfast.heads.stats import FROM_ANCHOR, FROM_ANCHOR_LOGITS, TokenStats
from holdfast.heads.whole_logits import stats_from_logits

__all__ = [
    "BACKENDS",
    "FROM_ANCHOR",
    "FROM_ANCHOR_LOGITS",
    "FusedLoss",
    "Group",
    "Reference",
    "TokenStats",
    "fused_loss",
    "loss_from_logits",
    "stats_from_logits",
    "token_stats",
]
