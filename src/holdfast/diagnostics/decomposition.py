"""Two models' accuracy difference, split into what better attempts and what better decisions explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.diagnostics.calibration import row_of, why_unknown
from holdfast.diagnostics.counts import decision_rates, ratio
from holdfast.diagnostics.two_stage import Floats, accuracy
from holdfast.stats import Estimate, Resamples, Unknown, newcombe, percentile_interval, wilson

PARTS = ("sampling_first", "decision_second", "decision_first", "sampling_second", "sampling", "decision", "total")


@dataclass(frozen=True)
class Decomposition:
    """B minus A. Each part depends on which is exchanged first; ``sampling`` and ``decision`` are the Shapley means.

    ``total`` is the difference of the two predictions; ``observed`` that of the accuracies: what the formula leaves over
    is the gap between them.
    """

    sampling_first: Estimate | Unknown  # B's p_s under A's decisions
    decision_second: Estimate | Unknown  # then B's decisions too
    decision_first: Estimate | Unknown  # B's decisions on A's attempts
    sampling_second: Estimate | Unknown
    sampling: Estimate | Unknown
    decision: Estimate | Unknown
    total: Estimate | Unknown
    observed: Estimate | Unknown

    def row(self) -> dict[str, Any]:
        """All parts, for `--json`."""
        return {name: row_of(value) for name, value in vars(self).items()}


def decompose(
    a: Floats,
    b: Floats,
    *,
    problems: tuple[Sequence[Any] | None, Sequence[Any] | None] = (None, None),
    draws: int = 1000,
    seed: int = 0,
) -> Decomposition:
    """Split the difference between two models, given their counts (``counts.count``), which are drawn independently.

    ``problems``: of each model's responses, as in ``calibrate``: those to one problem are drawn together.
    """
    drawn_a = Resamples.of(a, groups=problems[0], draws=draws, seed=seed)
    drawn_b = Resamples.of(b, groups=problems[1], draws=draws, seed=seed + 1)
    values = _parts(drawn_a.whole, drawn_b.whole)
    drawn = _parts(drawn_a.sums, drawn_b.sums)
    why = next(
        (why_unknown(counts.whole) for counts in (drawn_a, drawn_b) if not np.isfinite(_accuracy(counts.whole))), ""
    )
    why = why or "unidentified: one model never had to decide about such an attempt"
    shares = [
        wilson(float(ratio(side.whole, "final_right", "responses")) * side.n, side.n) for side in (drawn_b, drawn_a)
    ]
    observed = newcombe(*shares)
    return Decomposition(**{name: _estimate(values[name], drawn[name], why, observed) for name in (*PARTS, "observed")})


def _parts(a: Floats, b: Floats) -> dict[str, Floats]:
    sample_a, sample_b = (ratio(counts, "first_right", "answered") for counts in (a, b))
    decide_a, decide_b = decision_rates(a), decision_rates(b)
    low, high = accuracy(sample_a, *decide_a), accuracy(sample_b, *decide_b)
    better_sampling, better_decision = accuracy(sample_b, *decide_a), accuracy(sample_a, *decide_b)
    parts = {
        "sampling_first": better_sampling - low,
        "decision_second": high - better_sampling,
        "decision_first": better_decision - low,
        "sampling_second": high - better_decision,
        "total": high - low,
        "observed": ratio(b, "final_right", "responses") - ratio(a, "final_right", "responses"),
    }
    parts["sampling"] = (parts["sampling_first"] + parts["sampling_second"]) / 2
    parts["decision"] = (parts["decision_first"] + parts["decision_second"]) / 2
    return parts


def _accuracy(sums: Floats) -> Floats:
    return accuracy(ratio(sums, "first_right", "answered"), *decision_rates(sums))


def _estimate(value: Floats, drawn: Floats, why: str, observed: Estimate) -> Estimate | Unknown:
    """Where every draw agrees (all responses right, say), the interval is as wide as that of the accuracies ``observed``."""
    if not np.isfinite(value):
        return Unknown(why)
    part, ends = float(value), percentile_interval(drawn)
    if ends is not None and ends[0] < ends[1]:
        return Estimate(part, *ends, observed.n, "bootstrap")
    low, high = part - (observed.value - observed.low), part + (observed.high - observed.value)
    return Estimate(part, max(low, -1.0), min(high, 1.0), observed.n, observed.method)
