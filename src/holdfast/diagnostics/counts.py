"""What each response did, as a row of counts. Every figure of the calibration is a function of their sums."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from holdfast.config import InputError
from holdfast.diagnostics import two_stage
from holdfast.diagnostics.two_stage import Floats

COLUMNS = (
    "responses", "cut_off", "stopped", "answered", "attempts", "attempts_right", "first_right", "first_wrong", "decided",
    "decided_right", "decided_wrong", "resampled_wrong", "final_right", "compared", "echoes", "wrong_to_right",
    "right_to_wrong",
)  # fmt: skip
COLUMN = {name: index for index, name in enumerate(COLUMNS)}


def count(
    attempts: Sequence[Sequence[bool]], stopped: Sequence[bool] | None, answers: Sequence[Sequence[str]] | None = None
) -> Floats:
    """[responses, columns]. After its last attempt a response that stopped has decided to; one cut off has not decided."""
    if not attempts:
        raise InputError("calibration: there are no responses")
    ends = [True] * len(attempts) if stopped is None else list(stopped)
    for name, given in (("stopped", ends), ("answers", answers)):
        if given is not None and len(given) != len(attempts):
            raise InputError(f"calibration: '{name}' has {len(given)} entries for {len(attempts)} responses")
    texts = [()] * len(attempts) if answers is None else list(answers)
    rows = [_count_one(*response) for response in zip(attempts, ends, texts, strict=True)]
    return np.array([[row.get(name, 0) for name in COLUMNS] for row in rows], float)


def _count_one(attempts: Sequence[bool], stopped: bool, answers: Sequence[str]) -> dict[str, int]:
    right = [bool(attempt) for attempt in attempts]
    row = {"responses": 1, "cut_off": int(not stopped), "stopped": int(stopped)}
    if not right:
        return row
    first, last, resampled = right[0], right[-1], right[:-1]
    decided = right if stopped else resampled
    return row | {
        "answered": 1,
        "attempts": len(right),
        "attempts_right": sum(right),
        "first_right": int(first),
        "first_wrong": int(not first),
        "decided": len(decided),
        "decided_right": sum(decided),
        "decided_wrong": len(decided) - sum(decided),
        "resampled_wrong": len(resampled) - sum(resampled),
        "final_right": int(stopped and last),
        "compared": max(0, len(answers) - 1),
        "echoes": sum(before == after for before, after in pairwise(answers)),
        "wrong_to_right": int(not first and last),
        "right_to_wrong": int(first and not last),
    }


def ratio(sums: Floats, hits: str, trials: str) -> Floats:
    """One column by another; NaN where there is nothing to divide by."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., COLUMN[hits]] / sums[..., COLUMN[trials]])


def decision_rates(sums: Floats) -> tuple[Floats, Floats]:
    """p_dC and p_dW."""
    return ratio(sums, "final_right", "decided_right"), ratio(sums, "resampled_wrong", "decided_wrong")


def predicted(sums: Floats, *, pooled: bool = False, max_attempts: int | None = None) -> Floats:
    """The formula, with p_s of first attempts, or ``pooled`` over all attempts that were decided about.

    Pooled it is the identity of MATH §5: p_s p_dC and (1 - p_s)(1 - p_dW) are then the shares of attempts that were
    stopped on, right and wrong, and their ratio is the accuracy of the responses that stopped, whatever the process.
    """
    p_s = ratio(sums, "decided_right", "decided") if pooled else ratio(sums, "first_right", "answered")
    if max_attempts is None:
        return two_stage.accuracy(p_s, *decision_rates(sums))
    return two_stage.accuracy_at_most(p_s, *decision_rates(sums), attempts=max_attempts)
