"""The two-stage process of [004] in closed form (MATH §5): attempts, each followed by STOP or RESAMPLE.

p_s: an attempt is right. p_dC: stop, given a right attempt. p_dW: resample, given a wrong one. Everything takes floats or
arrays, so that one line serves an estimate and its thousand bootstrap draws; where a figure is undefined it is NaN *here*,
and ``why_undefined`` says the reason that a reader is given instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
NEVER_STOPS = "it never stops: every attempt is followed by another one"


def accuracy(p_s: ArrayLike, p_dc: ArrayLike, p_dw: ArrayLike) -> Floats:
    """The share of responses that stop on a right attempt, with attempts without end ([004] §4.2; MATH §5).

    Where attempts are never right (wrong), p_dC (p_dW) plays no part and may be NaN.
    """
    right, wrong = stop_right(p_s, p_dc), stop_wrong(p_s, p_dw)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(right / (right + wrong))


def accuracy_at_most(p_s: ArrayLike, p_dc: ArrayLike, p_dw: ArrayLike, *, attempts: int) -> Floats:
    """The same with at most ``attempts`` of them: a response that goes on after the last one is wrong."""
    assert attempts >= 1
    right, wrong = stop_right(p_s, p_dc), stop_wrong(p_s, p_dw)
    go_on = np.clip(1 - right - wrong, 0, 1)  # q
    rounds = sum(
        (go_on**k for k in range(attempts)), start=np.zeros_like(go_on)
    )  # (1 - q^K) / (1 - q), and K where q = 1
    return np.asarray(right * rounds)


def why_undefined(p_s: float, p_dc: float, p_dw: float) -> str | None:
    """Why there is no accuracy: it never stops (p_s p_dC = 0, and p_dW = 1 or p_s = 1). None where there is one."""
    return NEVER_STOPS if float(stop_right(p_s, p_dc) + stop_wrong(p_s, p_dw)) == 0 else None


def stop_right(p_s: ArrayLike, p_dc: ArrayLike) -> Any:
    """An attempt is right and the last: p_s p_dC, zero where p_s is."""
    p_s, p_dc = np.asarray(p_s, float), np.asarray(p_dc, float)
    return np.where(p_s == 0, 0.0, p_s * p_dc)


def stop_wrong(p_s: ArrayLike, p_dw: ArrayLike) -> Any:
    """An attempt is wrong and the last: (1 - p_s)(1 - p_dW), zero where p_s is 1."""
    p_s, p_dw = np.asarray(p_s, float), np.asarray(p_dw, float)
    return np.where(p_s == 1, 0.0, (1 - p_s) * (1 - p_dw))
