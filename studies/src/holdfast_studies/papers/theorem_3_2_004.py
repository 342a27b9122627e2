"""[004] Theorem 3.2 and footnote 11: the KL penalty's Q-values, how they grow with length, and whether one value function
serves.

Set-up. Recursion: ten worlds (``token_world``), reference = policy + noise of 0.2; Q-values by listing every continuation,
against the theorem's recursions over states (gamma = 1), an attempt being one action. Value: one function V of states, the
mean over all histories that reach them; is Q = d + V(next state) for both kinds of actions? Machine: E|d_sample| /
E|d_decision| exactly, for attempts of L independent two-way tokens whose logits lie delta from the reference's (delta =
0.02, 0.1, 0.5; L = 8 to 512), a decision being one such token; exponent by least squares on logarithms. Gradients: |s| /
|dW| of the expected KL gradient in the three-logit model at Appendix C's point, L = 64 to 4096, with k1 in the reward (the
theorem's placement), k2 and k3 in the loss (k3: the experiment's).
Rules: the recursion holds if the error is at most 1e-9. "No unified statistic" holds if V misses by more than 1e-9;
footnote 11 the reverse. The scale holds if every exponent is at least 0.9, in part if every one is above 0.1. The
gradients' asymmetry O(L) holds if all placements have exponents of at least 0.9, in part if some have.
"""

from __future__ import annotations

import math

from scipy.stats import binom
from torch import Tensor

from holdfast.diagnostics import fit_growth
from holdfast.stats import Estimate
from holdfast_studies.decisions.appendix_c import REFERENCE, THETA
from holdfast_studies.decisions.three_logits import loss_kl_gradient, reward_kl_gradient, sigmoid
from holdfast_studies.papers.study import Claim, ClaimVerdict, Figures, Finding, Machine, OnProgress, Study, verdict_of
from holdfast_studies.papers.token_world import (
    RESAMPLE,
    STOP,
    Act,
    Attempt,
    Response,
    TokenWorld,
    attempt_ends,
    attempt_of,
    given_so_far,
)

NUM_WORLDS = 10
EXACT = 1e-9
DELTAS = (0.02, 0.1, 0.5)
LENGTHS = (8, 32, 128, 512)
GRADIENT_LENGTHS = (64, 256, 1024, 4096)
PLACEMENTS = ("k1 in the reward", "k2 in the loss", "k3 in the loss")


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Errors and exponents."""
    recursion, value = 0.0, 0.0
    for seed in range(NUM_WORLDS):
        found = recursion_errors(TokenWorld(seed=seed))
        recursion, value = max(recursion, found[0]), max(value, found[1])
        on_progress((seed + 1) / NUM_WORLDS)
    scales = {str(delta): [scale_ratio(length, delta) for length in LENGTHS] for delta in DELTAS}
    ratios = {name: [gradient_ratio(name, length) for length in GRADIENT_LENGTHS] for name in PLACEMENTS}
    return {
        "recursion_error": recursion,
        "value_error": value,
        "scales": scales,
        "scale_exponents": {delta: _exponent(LENGTHS, row) for delta, row in scales.items()},
        "gradient_ratios": ratios,
        "gradient_exponents": {name: _exponent(GRADIENT_LENGTHS, row) for name, row in ratios.items()},
    }


def _exponent(lengths: tuple[int, ...], ratios: list[float]) -> float:
    law = fit_growth("", dict(zip(map(float, lengths), ratios, strict=True)))
    assert law is not None
    return law.exponent


def recursion_errors(world: TokenWorld) -> tuple[float, float]:
    """(of the theorem's recursions, of Q = d + V(next state) with one V): the largest, against Q by listing."""
    theta = world.policy(0)
    logps = world.logps(theta)
    penalty = logps - world.logps(theta + world.policy(1, scale=0.2))
    chances = world.response_logps(logps).exp()
    later = [_later(response, penalty) for response in world.responses]  # penalties after each act, not yet averaged
    listed = given_so_far(world, chances, later)
    value = _values(world, chances, later)
    states = Recursion(world, logps, penalty)
    recursion = unified = 0.0
    for response, row in zip(world.responses, listed, strict=True):
        for place, (number, end) in enumerate(zip(attempt_of(response), attempt_ends(response), strict=True)):
            if place != end:
                continue
            attempt, act = response.attempts[number], response.acts[place]
            left = world.max_attempts - 1 - number
            after = (
                states.after_decision(attempt, act.action, left) if act.decides else states.after_attempt(attempt, left)
            )
            recursion = max(recursion, abs(row[place] - after))
            unified = max(unified, abs(row[place] - value[number, attempt, _taken(act)]))
    return recursion, unified


def _later(response: Response, penalty: Tensor) -> list[float]:
    """For each act, the penalties of the acts after it."""
    paid = [float(penalty[act.context, act.action]) for act in response.acts]
    return [sum(paid[place + 1 :]) for place in range(len(paid))]


def _taken(act: Act) -> int | None:
    """The decision that led to a state; None where none has been taken yet."""
    return act.action if act.decides else None


def _values(
    world: TokenWorld, chances: Tensor, later: list[list[float]]
) -> dict[tuple[int, Attempt, int | None], float]:
    """V: the mean over every history of what is still to be paid, by number of the attempt, attempt, and decision if taken."""
    sums: dict[tuple[int, Attempt, int | None], list[float]] = {}
    for response, chance, row in zip(world.responses, chances.tolist(), later, strict=True):
        for place, (number, end) in enumerate(zip(attempt_of(response), attempt_ends(response), strict=True)):
            act = response.acts[place]
            if place == end:
                total = sums.setdefault((number, response.attempts[number], _taken(act)), [0.0, 0.0])
                total[0] += chance * row[place]
                total[1] += chance
    return {state: paid / chance for state, (paid, chance) in sums.items()}


class Recursion:
    """The theorem's recursions, from the last attempt backwards; they know the current attempt only."""

    def __init__(self, world: TokenWorld, logps: Tensor, penalty: Tensor) -> None:
        self.world, self.logps, self.penalty = world, logps, penalty
        self.texts = sorted({response.attempts[0] for response in world.responses})

    def after_attempt(self, attempt: Attempt, left: int) -> float:
        """E[Q_d]: what an attempt has before it, with so many attempts left; the last one is the answer."""
        if left == 0:
            return 0.0
        place = self.world.contexts[None, attempt, True]
        chance, paid = self.logps[place].exp(), self.penalty[place]
        return sum(
            float(chance[action]) * (float(paid[action]) + self.after_decision(attempt, action, left))
            for action in (STOP, RESAMPLE)
        )

    def after_decision(self, attempt: Attempt, action: int, left: int) -> float:
        """E[Q_sample] of the next attempt, if there is one."""
        if action == STOP:
            return 0.0
        total = 0.0
        for text in self.texts:
            places = [self.world.contexts[attempt, text[:size], False] for size in range(len(text))]
            chance = math.exp(sum(float(self.logps[place, token]) for place, token in zip(places, text, strict=True)))
            paid = sum(float(self.penalty[place, token]) for place, token in zip(places, text, strict=True))
            total += chance * (paid + self.after_attempt(text, left - 1))
        return total


def scale_ratio(length: int, delta: float) -> float:
    """E|sum of L log-ratios| / E|one log-ratio| under the policy, exactly: the number of likely tokens is binomial."""
    p, q = sigmoid(0.4), sigmoid(0.4 - delta)
    up, down = math.log(p / q), math.log((1 - p) / (1 - q))
    total = sum(
        float(binom.pmf(count, length, p)) * abs(count * up + (length - count) * down) for count in range(length + 1)
    )
    return total / (p * abs(up) + (1 - p) * abs(down))


def gradient_ratio(placement: str, length: int) -> float:
    """|s| / |dW| of the expected KL gradient at Appendix C's point."""
    if placement == PLACEMENTS[0]:
        gradient = reward_kl_gradient(THETA, REFERENCE, length=length)
    else:
        gradient = loss_kl_gradient(THETA, REFERENCE, estimator=placement[:2], length=length)
    return abs(gradient.s / gradient.dW)


# --- rules ----------------------------------------------------------------------------------------------------------


def recursion_holds(figures: Figures) -> Finding:
    """Judge the Bellman recursions."""
    error = figures["recursion_error"]
    found = f"Q by listing every continuation against the recursions: error at most {error:.1g} in {NUM_WORLDS} worlds"
    return Finding("holds" if error <= EXACT else "does not hold", found, Estimate(error, n=NUM_WORLDS))


def scale_separation(figures: Figures) -> Finding:
    """Judge whether the penalty of an attempt is L times that of a decision; signed terms partly cancel."""
    exponents = figures["scale_exponents"]
    verdict: ClaimVerdict = "does not hold"
    if all(each > 0.1 for each in exponents.values()):
        verdict = "holds" if all(each >= 0.9 for each in exponents.values()) else "holds in part"
    each = ", ".join(f"L^{exponent:.2f} at {delta}" for delta, exponent in exponents.items())
    found = (
        f"the mean size of d_sample over that of d_decision grows like {each} logits from the reference: log-ratios have both "
        "signs, so their sum grows like the root of L until the drift outweighs the noise; L is an upper bound"
    )
    return Finding(verdict, found, Estimate(exponents["0.1"]))


def gradient_asymmetry(figures: Figures) -> Finding:
    """Judge how the KL's gradient divides between sampling and decisions, by placement of the KL."""
    exponents, ratios = figures["gradient_exponents"], figures["gradient_ratios"]
    grows = [exponent >= 0.9 for exponent in exponents.values()]
    each = ", ".join(
        f"{name} L^{exponents[name]:.2f} (ratio {ratios[name][-1]:.0f} at {GRADIENT_LENGTHS[-1]})" for name in exponents
    )
    found = (
        f"size of the expected gradient in s over that in dW: {each}; in the reward a decision to go on pays for later attempts, "
        "so the ratio tends to a constant"
    )
    verdict = verdict_of(grows)
    return Finding(verdict, found, Estimate(exponents[PLACEMENTS[0]]))


def no_unified_statistic(figures: Figures) -> Finding:
    """Judge the impossibility of a unified statistic; its proof subtracts two O() symbols."""
    error = figures["value_error"]
    exists = error <= EXACT
    remark = "O(L) - O(1) = 0 contradicts nothing" if exists else "no single function does"
    found = f"both Q-values as d + V(next state) with one V of states: error {error:.1g}; {remark}"
    return Finding("does not hold" if exists else "holds", found, Estimate(error, n=NUM_WORLDS))


def footnote_11(figures: Figures) -> Finding:
    """Judge footnote 11, which takes that impossibility back."""
    error = figures["value_error"]
    exists = error <= EXACT
    remark = "; so the footnote withdraws the theorem's 'no single sufficient statistic'" if exists else ""
    found = f"one V of states for both kinds of actions: error {error:.1g}{remark}"
    return Finding("holds" if exists else "does not hold", found, Estimate(error, n=NUM_WORLDS))


def same_placement(figures: Figures) -> Finding:
    """KL in the reward, as the theorem has it, against k3 in the loss, as Table 7 has it."""
    theory, experiment = (figures["gradient_exponents"][name] for name in (PLACEMENTS[0], PLACEMENTS[-1]))
    found = (
        f"the theorem treats KL in the reward (L^{theory:.2f}), Table 7 lists a KL *loss* with low_var_kl, k3 in the loss"
        f" (L^{experiment:.2f}), which accumulates nothing"
    )
    return Finding("holds" if abs(theory - experiment) < 0.1 else "does not hold", found, Estimate(theory - experiment))


STUDY = Study(
    id="004-theorem-3-2",
    paper="004",
    title="Theorem 3.2: attribution of the KL penalty",
    claims=(
        Claim(
            id="004-theorem-3-2-recursion",
            place="Theorem 3.2, A.5",
            text="the KL penalty's Q-values satisfy the Bellman recursions",
            printed="an identity",
            judge=recursion_holds,
        ),
        Claim(
            id="004-theorem-3-2-scale",
            place="Theorem 3.2, A.5",
            text="the penalty of an attempt is about L times that of a decision",
            printed="a ratio of about L",
            judge=scale_separation,
        ),
        Claim(
            id="004-theorem-3-2-gradients",
            place="Theorem 3.2, Sec. 3.3.2",
            text="the KL penalty's gradient falls on sampling L times as much as on decisions",
            printed="O(L) against O(1)",
            judge=gradient_asymmetry,
        ),
        Claim(
            id="004-theorem-3-2-impossibility",
            place="A.5",
            text="no single sufficient statistic serves both Q-values of the KL penalty",
            printed="'0 = O(L) - O(1), which is a contradiction'",
            judge=no_unified_statistic,
            erratum=True,
        ),
        Claim(
            id="004-footnote-11",
            place="Footnote 11",
            text="a unified value function exists by standard theory; 'unbalanced' is about magnitudes",
            printed="'not existence of a unified V'",
            judge=footnote_11,
        ),
        Claim(
            id="004-footnote-10",
            place="Footnote 10 against Table 7",
            text="the KL that the theorem treats is the one that GRPO and the experiment use",
            printed="'\"KL in reward\" placement used in GRPO'; Table 7: KL loss coefficient 0.001, low_var_kl",
            judge=same_placement,
            erratum=True,
            rule="after",
        ),
    ),
    run=run,
    seconds={"cpu": 12},
    about="mathematics",
    rule="changed",
    model="exact worlds",
)
