"""How often a model's attempts are right, and how often it decides rightly about them (MATH §5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from holdfast.diagnostics import two_stage
from holdfast.diagnostics.counts import COLUMN, count, decision_rates, predicted, ratio
from holdfast.diagnostics.two_stage import Floats
from holdfast.stats import Estimate, Resamples, Unknown, newcombe, wilson

NUM_FOLDS = 5
NO_ATTEMPT = "no response has an attempt"
NO_RIGHT = "unidentified: no right attempt was followed by a decision"
NO_WRONG = "unidentified: no wrong attempt was followed by a decision"


@dataclass(frozen=True, repr=False)
class Calibration:
    """The figures of one model on one set of problems. ``p_s`` is that of first attempts."""

    p_s: Estimate | Unknown
    p_s_pooled: Estimate | Unknown  # over all attempts
    p_dC: Estimate | Unknown  # noqa: N815  (the paper's names)
    p_dW: Estimate | Unknown  # noqa: N815
    predicted: Estimate | Unknown  # by the formula, from p_s of first attempts
    held_out: Estimate | Unknown  # predicted for problems that the estimates have not seen
    observed: Estimate | Unknown  # final answer right; a response that was cut off counts as wrong
    observed_stopped: Estimate | Unknown  # the same among the responses that stopped by themselves
    gain: Estimate | Unknown  # p_dC + p_dW - 1: above 0, reflection pays
    echo: Estimate | Unknown  # the same answer again, given that it tried again
    wrong_to_right: Estimate | Unknown  # last attempt right, given a wrong first one (F -> T)
    right_to_wrong: Estimate | Unknown  # the reverse (T -> F)
    cut_off: Estimate | Unknown
    attempts: Estimate | Unknown  # per response
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
        """All figures, for `--json`."""
        figures = {name: row_of(value) for name, value in vars(self).items() if isinstance(value, Estimate | Unknown)}
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
    seed: int = 0,
) -> Calibration:
    """Calibrate from what each response did: was each attempt right, in order; ``stopped[i]`` False = cut off.

    ``answers`` gives the echo rate; ``problems`` names the problem of each response: responses to one problem are drawn
    and held out together. ``max_attempts``: the formula for at most so many, cut-off counted as wrong.
    """
    counts = count(attempts, stopped, answers)
    bootstrap = Resamples.of(counts, groups=problems, draws=draws, seed=seed)
    predict = partial(predicted, max_attempts=max_attempts)
    from_all = _predicted(predict, bootstrap)

    def rate(hits: str, trials: str, why: str = "") -> Estimate | Unknown:
        return _rate(bootstrap, hits, trials, why)

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
        predicted=from_all,
        held_out=_held_out(counts, problems, predict, from_all, seed),
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


def row_of(figure: Estimate | Unknown) -> dict[str, Any]:
    """A figure for `--json`. A share has [004]'s normal approximation too."""
    row = figure.to_json(n="trials")
    normal = normal_interval(figure)
    return row if normal is None else {**row, "normal": list(normal)}


def normal_interval(figure: Estimate | Unknown) -> tuple[float, float] | None:
    """[004] E.4: value ± 1.96 sqrt(value (1 - value) / n) of a share; None for anything else.

    Kept for comparison: it has no width at 0 and 1, and leaves [0, 1] near them, as Table 1 of the paper shows.
    """
    if isinstance(figure, Unknown) or figure.hits is None:
        return None
    half = 1.959963984540054 * float(np.sqrt(figure.value * (1 - figure.value) / figure.n))
    return figure.value - half, figure.value + half


def _rate(bootstrap: Resamples, hits: str, trials: str, why: str) -> Estimate | Unknown:
    """A share of counts. None of them, or all: every draw agrees, and Wilson's interval says what that is worth.

    What is drawn counts once there, a response or a problem with all of its responses: 100 right answers to one problem are
    no proof about the next problem.
    """
    num_hits, num = (round(bootstrap.whole[COLUMN[name]]) for name in (hits, trials))
    if num == 0:
        return Unknown(why, 0)
    interval = bootstrap.interval(partial(ratio, hits=hits, trials=trials))
    if interval is None or num_hits in (0, num):
        drawn = bootstrap.filled[COLUMN[trials]]
        once = wilson(num_hits / num * drawn, drawn)
        return Estimate(num_hits / num, once.low, once.high, num, "wilson", num_hits)
    return Estimate(num_hits / num, *interval, num, "bootstrap", num_hits)


def _figure(statistic: Callable[[Floats], Any], bootstrap: Resamples) -> Estimate | Unknown:
    if not np.isfinite(statistic(bootstrap.whole)):
        return Unknown(why_unknown(bootstrap.whole))
    return bootstrap.estimate(statistic)


def _predicted(predict: Callable[[Floats], Floats], bootstrap: Resamples) -> Estimate | Unknown:
    """None right, or all: the interval is that of the share observed."""
    figure = _figure(predict, bootstrap)
    if isinstance(figure, Unknown) or 0 < figure.value < 1:
        return figure
    same = wilson(figure.value * bootstrap.n, bootstrap.n)
    return replace(figure, low=same.low, high=same.high, method=same.method)


def _gain(p_dc: Estimate | Unknown, p_dw: Estimate | Unknown, bootstrap: Resamples) -> Estimate | Unknown:
    """p_dC + p_dW - 1; unknown where one of them is. Where no draw differs, both are 0 or 1, and their own intervals make its."""
    if isinstance(p_dc, Unknown):
        return Unknown(p_dc.why)
    if isinstance(p_dw, Unknown):
        return Unknown(p_dw.why)
    figure = bootstrap.estimate(lambda sums: sum(decision_rates(sums)) - 1)
    if figure.low < figure.high:
        return figure
    stops_wrong = replace(p_dw, value=1 - p_dw.value, low=1 - p_dw.high, high=1 - p_dw.low)
    return newcombe(p_dc, stops_wrong)


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
    from_all: Estimate | Unknown,
    seed: int,
) -> Estimate | Unknown:
    """Every response's accuracy as predicted from the other folds, on average: to compare with ``observed``.

    Its interval is that of the prediction ``from_all`` problems: the folds' estimates are the same figures on fewer of them.
    """
    names = range(len(counts)) if problems is None else [str(problem) for problem in problems]
    known, index = np.unique(np.asarray(names), return_inverse=True)
    if len(known) < 2:
        return Unknown("one problem: none to hold out")
    folds = min(NUM_FOLDS, len(known))
    fold = (np.random.default_rng(seed).permutation(len(known)) % folds)[index]
    values = np.array([predict(counts[fold != held].sum(0)) for held in range(folds)], float)
    if not np.isfinite(values).all():
        worst = int(np.flatnonzero(~np.isfinite(values))[0])
        return Unknown(f"with a fold of the problems held out: {why_unknown(counts[fold != worst].sum(0))}")
    sizes = np.bincount(fold, minlength=folds)
    if isinstance(from_all, Unknown):
        return from_all
    return replace(from_all, value=float(values @ sizes / sizes.sum()))
