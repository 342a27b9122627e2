"""Best-of-n with a safety bar: selection, curves over n, bounds with their assumptions, rewards, the server."""

from holdfast.oversight.bounds import Choice, Guarantee, choose_threshold, guarantee
from holdfast.oversight.curves import Estimate, Point, curve
from holdfast.oversight.divergence import Divergence, divergence, kl_bound
from holdfast.oversight.estimators import Pool, abstention, expected, pass_at_k
from holdfast.oversight.selection import Selection, select, select_pessimistic, select_soft
from holdfast.oversight.significance import holm, mcnemar, permutation

__all__ = [
    "Choice",
    "Divergence",
    "Estimate",
    "Guarantee",
    "Point",
    "Pool",
    "Selection",
    "abstention",
    "choose_threshold",
    "curve",
    "divergence",
    "expected",
    "guarantee",
    "holm",
    "kl_bound",
    "mcnemar",
    "pass_at_k",
    "permutation",
    "select",
    "select_pessimistic",
    "select_soft",
]
