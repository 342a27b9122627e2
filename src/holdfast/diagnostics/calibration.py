"""How often a model's attempts are right, and how often it decides rightly about them (MATH §5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from holdfast.diagnostics import two_stage
from holdfast.diagnostics.counts import COLUMN, count, decision_rates, predicted, ratio
from holdfast.diagnostics.estimates import Bootstrap, Estimate, Floats, share

NO_ATTEMPT = "no response has an attempt"
NO_RIGHT = "unidentified: no right attempt was followed by a decision"
NO_WRONG = "unidentified: no wrong attempt was followed by a decision"


@dataclass(frozen=True, repr=False)
class Calibration:
    """The figures of one model on one set of problems. ``p_s`` is that of first attempts."""

    p_s: Estimate
    p_s_pooled: Estimate  # over all attempts
    p_dC: Estimate  # noqa: N815  (the paper's names)
    p_dW: Estimate  # noqa: N815
    predicted: Estimate  # by the formula, from p_s of first attempts
    held_out: Estimate  # predicted for problems that the estimates have not seen
    observed: Estimate  # final answer right; a response that was cut off counts as wrong
    observed_stopped: Estimate  # the same among the responses that stopped by themselves
    gain: Estimate  # p_dC + p_dW - 1: above 0, reflection pays
    echo: Estimate  # the same answer again, given that it tried again
    wrong_to_right: Estimate  # last attempt right, given a wrong first one (F -> T)
    right_to_wrong: Estimate  # the reverse (T -> F)
    cut_off: Estimate
    attempts: Estimate  # per response
    identity_gap: float | None  # the formula with p_s pooled, minus observed_stopped: 0 but for rounding
    counts: dict[str, int]

    @property
    def reflection_pays(self) -> bool | None:
        """Whether reflecting beats stopping after the first attempt; None where one of the two rates is unknown."""
        return None if self.gain.value is None else self.gain.value > 0

    @property
    def held_out_error(self) -> float | None:
        """Held-out prediction minus what was observed."""
        if self.held_out.value is None or self.observed.value is None:
            return None
        return self.held_out.value - self.observed.value

    def __repr__(self) -> str:
        """The figures that are read first, a line each."""
        names = ("p_s", "p_dC", "p_dW", "gain", "observed", "held_out")
        return "Calibration\n" + "\n".join(f"  {name:9} {getattr(self, name)}" for name in names)

    def row(self) -> dict[str, Any]:
        """For `--json`."""
        figures = {name: value.row() for name, value in vars(self).items() if isinstance(value, Estimate)}
        rest = {"reflection_pays": self.reflection_pays, "held_out_error": self.held_out_error}
        return {**figures, **rest, "identity_gap": self.identity_gap, "counts": self.counts}


def calibrate(
    attempts: Sequence[Sequence[bool]],
    stopped: Sequence[bool] | None = None,
    *,
    answers: Sequence[Sequence[str]] | None = None,
    problems: Sequence[Any] | None = None,
    max_attempts: int | None = None,
    draws: int = 1000,
    folds: int = 5,
    seed: int = 0,
) -> Calibration:
    """Calibrate from what each response did: was each attempt right, in order; ``stopped[i]`` False = cut off.

    ``answers`` gives the echo rate; ``problems`` names the problem of each response: responses to one problem are drawn
    and held out together. ``max_attempts``: the formula for at most so many, cut-off counted as wrong.
    """
    counts = count(attempts, stopped, answers)
    bootstrap = Bootstrap.of(counts, problems, draws=draws, seed=seed)
    predict = partial(predicted, max_attempts=max_attempts)

    def rate(hits: str, trials: str, why: str = "") -> Estimate:
        interval = bootstrap.interval(partial(ratio, hits=hits, trials=trials))
        return share(bootstrap.whole[COLUMN[hits]], bootstrap.whole[COLUMN[trials]], interval, why)

    no_echo = "no response tried again" if answers is not None else "unknown: no answers were given"
    ended = rate("final_right", "stopped", "every response was cut off")
    pooled = float(predicted(bootstrap.whole, pooled=True))
    per_response = partial(ratio, hits="attempts", trials="responses")
    p_dc, p_dw = rate("final_right", "decided_right", NO_RIGHT), rate("resampled_wrong", "decided_wrong", NO_WRONG)
    return Calibration(
        p_s=rate("first_right", "answered", NO_ATTEMPT),
        p_s_pooled=rate("attempts_right", "attempts", NO_ATTEMPT),
        p_dC=p_dc,
        p_dW=p_dw,
        predicted=_predicted(predict, bootstrap),
        held_out=_held_out(counts, problems, predict, bootstrap, folds=folds, seed=seed),
        observed=rate("final_right", "responses"),
        observed_stopped=ended,
        gain=_gain(p_dc, p_dw, bootstrap),
        echo=rate("echoes", "compared", no_echo),
        wrong_to_right=rate("wrong_to_right", "first_wrong", "no first attempt was wrong"),
        right_to_wrong=rate("right_to_wrong", "first_right", "no first attempt was right"),
        cut_off=rate("cut_off", "responses"),
        attempts=_figure(per_response, bootstrap),
        identity_gap=pooled - ended.value if ended.value is not None and np.isfinite(pooled) else None,
        counts={name: int(bootstrap.whole[index]) for name, index in COLUMN.items()},
    )


def _figure(statistic: Callable[[Floats], Any], bootstrap: Bootstrap) -> Estimate:
    value = float(statistic(bootstrap.whole))
    if not np.isfinite(value):
        return Estimate(None, why=why_unknown(bootstrap.whole))
    interval = bootstrap.interval(statistic)
    return Estimate(value, *(interval or (None, None)))


def _predicted(predict: Callable[[Floats], Floats], bootstrap: Bootstrap) -> Estimate:
    """None right, or all: the interval is that of the share observed."""
    found = _figure(predict, bootstrap)
    if found.value is None or 0 < found.value < 1:
        return found
    trials = bootstrap.whole[COLUMN["responses"]]
    same = share(found.value * trials, trials, None, "")
    return replace(found, low=same.low, high=same.high)


def _gain(p_dc: Estimate, p_dw: Estimate, bootstrap: Bootstrap) -> Estimate:
    """p_dC + p_dW - 1. Where no draw differs, both are 0 or 1, and their own intervals make its (Newcombe, 1998)."""
    found = _figure(lambda sums: sum(decision_rates(sums)) - 1, bootstrap)
    if found.low is None or found.high is None or found.low < found.high:
        return found
    low, value, high = np.array([[rate.low, rate.value, rate.high] for rate in (p_dc, p_dw)], float).T
    below, above = float(np.hypot(*(value - low))), float(np.hypot(*(high - value)))
    return replace(found, low=found.low - below, high=found.high + above)


def why_unknown(sums: Floats) -> str:
    """Why the formula has no value on these sums."""
    p_s, p_dc, p_dw = (float(rate) for rate in (ratio(sums, "first_right", "answered"), *decision_rates(sums)))
    if not np.isfinite(p_s):
        return NO_ATTEMPT
    if p_s < 1 and not np.isfinite(p_dw):
        return NO_WRONG
    return two_stage.why_undefined(p_s, p_dc, p_dw) or NO_RIGHT


def _held_out(
    counts: Floats,
    problems: Sequence[Any] | None,
    predict: Callable[[Floats], Floats],
    bootstrap: Bootstrap,
    *,
    folds: int,
    seed: int,
) -> Estimate:
    """Every response's accuracy as predicted from the other folds, on average: to compare with ``observed``.

    Its interval is that of the prediction from all problems: the folds' estimates are the same figures on fewer of them.
    """
    names = range(len(counts)) if problems is None else [str(problem) for problem in problems]
    known, index = np.unique(np.asarray(names), return_inverse=True)
    if len(known) < 2:
        return Estimate(None, why="one problem: none to hold out")
    folds = min(folds, len(known))
    fold = (np.random.default_rng(seed).permutation(len(known)) % folds)[index]
    values = np.array([predict(counts[fold != held].sum(0)) for held in range(folds)], float)
    if not np.isfinite(values).all():
        worst = int(np.flatnonzero(~np.isfinite(values))[0])
        return Estimate(None, why=f"with a fold of the problems held out: {why_unknown(counts[fold != worst].sum(0))}")
    sizes = np.bincount(fold, minlength=folds)
    return replace(_predicted(predict, bootstrap), value=float(values @ sizes / sizes.sum()))
