"""Best-of-n with a safety bar: selection, curves over n, bounds with their assumptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.config.lazily import exported_later
from holdfast.oversight.selection import Selection, select, select_pessimistic, select_soft

if TYPE_CHECKING:
    from holdfast.oversight.bounds import Choice, Guarantee, choose_threshold, guarantee, pass_through
    from holdfast.oversight.curves import Point, curve
    from holdfast.oversight.estimators import Pool, abstention, expected, pass_at_k
    from holdfast.oversight.kl import Divergence, divergence, kl_bound
    from holdfast.oversight.pipeline import Overseen, Pipeline, answer_overseen, best_of

__all__ = [
    "Choice",
    "Divergence",
    "Guarantee",
    "Overseen",
    "Pipeline",
    "Point",
    "Pool",
    "Selection",
    "abstention",
    "answer_overseen",
    "best_of",
    "choose_threshold",
    "curve",
    "divergence",
    "expected",
    "guarantee",
    "kl_bound",
    "pass_at_k",
    "pass_through",
    "select",
    "select_pessimistic",
    "select_soft",
]

_LATER = {
    "bounds": "Choice Guarantee choose_threshold guarantee pass_through",
    "curves": "Point curve",
    "kl": "Divergence divergence kl_bound",
    "estimators": "Pool abstention expected pass_at_k",
    "pipeline": "Overseen Pipeline answer_overseen best_of",
}

__getattr__ = exported_later(
    __name__, _LATER
)  # scipy takes a second to import, which a server that selects does not need.
