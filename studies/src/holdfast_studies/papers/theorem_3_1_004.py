"""[004] Theorem 3.1 and "balanced" attribution: what the surrogate reward's gradient is made of, with exact expectations.

Set-up: ten worlds of attempts of two tokens, at most three (``token_world``); the advantage of a response is its reward
minus the mean, over the standard deviation. Measures. Eq. 9: the gradient of the surrogate at ratio 1 by autograd against
the sum of scores, each times A; the same with the theorem's factors gamma^(tokens of this and later attempts), gamma = 0.99
and 0.9. Exponent: the theorem's factor at a decision over gamma^(tokens still to come). Q-values: the share of the
advantage's variance that is still open once state and action are known. Balance: |sampling part| / |decision part| of the
gradient for attempts of 1 to 4 tokens (at most two of them; geometric mean of ten worlds), for the reward and for SFT on
right responses of another policy.
Rules: Theorem 3.1 holds if eq. 9's error is at most 1e-9 with every gamma, in part if only without one. Its exponent holds
if the ratio is 1. "Both Q-values equal A" holds if at most 5 % of the variance is open. "Balanced" pressure holds if the
ratio stays within a factor 2 from 1 to 4 tokens. "RL balanced, SFT not" holds if the two parts of eq. 16 have different
weights.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.diagnostics import fit_growth
from holdfast.stats import Estimate
from holdfast_studies.papers.study import Claim, ClaimVerdict, Figures, Finding, Machine, OnProgress, Study
from holdfast_studies.papers.token_world import (
    Response,
    TokenWorld,
    attempt_of,
    given_so_far,
    relative_error,
    weighted_scores,
)

NUM_WORLDS = 10
EXACT = 1e-9
GAMMAS = (1.0, 0.99, 0.9)
LENGTHS = (1, 2, 3, 4)


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Errors, variances and ratios."""
    errors: dict[str, float] = {}
    still_open, exponents = [], []
    for seed in range(NUM_WORLDS):
        world = TokenWorld(seed=seed)
        for gamma in GAMMAS:
            errors[str(gamma)] = max(errors.get(str(gamma), 0.0), equation_9_error(world, gamma))
        still_open.append(open_variance(world))
        exponents.append(exponent_ratio(world, GAMMAS[-1]))
        on_progress((seed + 1) / (2 * NUM_WORLDS))
    ratios: dict[str, list[float]] = {"reward": [], "sft": []}
    for number, length in enumerate(LENGTHS, 1):
        worlds = [TokenWorld(length=length, max_attempts=2, seed=seed) for seed in range(NUM_WORLDS)]
        for name in ratios:
            logs = [math.log(part_ratio(world, name)) for world in worlds]
            ratios[name].append(math.exp(sum(logs) / len(logs)))
        on_progress(0.5 + number / (2 * len(LENGTHS)))
    growth = {name: fit_growth(name, dict(zip(map(float, LENGTHS), row, strict=True))) for name, row in ratios.items()}
    return {
        "errors": errors,
        "open": still_open,
        "exponent_ratio": exponents,
        "ratios": ratios,
        "exponents": {name: law.exponent for name, law in growth.items() if law is not None},
        "weights": {"reward": [1.0, 1.0], "sft": sft_weights(TokenWorld(seed=0))},
    }


def advantages(world: TokenWorld, chances: Tensor) -> Tensor:
    """The exact advantages: (R - mean) / standard deviation."""
    mean = (chances * world.rewards).sum()
    return (world.rewards - mean) / (mean * (1 - mean)).sqrt()


def equation_9_error(world: TokenWorld, gamma: float) -> float:
    """The surrogate's gradient against the sum of scores, each times gamma^(this and later attempts' tokens) A."""
    theta = world.policy(0)
    chances = world.response_logps(world.logps(theta)).exp()
    advantage, scores = advantages(world, chances), world.scores(theta)

    def surrogate(weights: Tensor) -> Tensor:
        return (world.response_logps(world.logps(weights)).exp() * advantage).sum()  # old policy = these weights

    printed = torch.zeros_like(theta)
    for response, chance, own in zip(world.responses, chances, advantage, strict=True):
        weights = [gamma ** (world.length * (len(response.attempts) - k)) * own for k in attempt_of(response)]
        printed = printed + chance * torch.stack(weighted_scores(scores, response, weights)).sum(0)
    return relative_error(printed, torch.func.grad(surrogate)(theta))


def exponent_ratio(world: TokenWorld, gamma: float) -> float:
    """At a decision: the printed factor over gamma^(attempts' tokens still to come), mean over decisions."""
    ratios = []
    for response in world.responses:
        for place, (act, number) in enumerate(zip(response.acts, attempt_of(response), strict=True)):
            if act.decides:
                to_come = sum(not later.decides for later in response.acts[place + 1 :])
                ratios.append(gamma ** (world.length * (len(response.attempts) - number)) / gamma**to_come)
    return sum(ratios) / len(ratios)


def open_variance(world: TokenWorld) -> float:
    """The share of the variance of A that is open once state and action are known: mean over all acts of a response."""
    chances = world.response_logps(world.logps(world.policy(0))).exp()
    advantage = advantages(world, chances).tolist()
    values = [[own] * len(response.acts) for response, own in zip(world.responses, advantage, strict=True)]
    known = given_so_far(world, chances, values)
    total = 0.0
    for chance, own, row in zip(chances.tolist(), advantage, known, strict=True):
        total += chance * sum((own - each) ** 2 for each in row) / len(row)
    return total


def part_ratio(world: TokenWorld, objective: str) -> float:
    """|gradient by sampling| / |gradient by decisions|, exact."""
    theta = world.policy(0)
    scores = world.scores(theta)
    if objective == "reward":
        chances = world.response_logps(world.logps(theta)).exp()
        weights = advantages(world, chances) * chances
    else:
        written = world.response_logps(world.logps(world.policy(1))).exp() * world.rewards
        weights = written / written.sum()
    sampling, deciding = torch.zeros_like(theta), torch.zeros_like(theta)
    for response, weight in zip(world.responses, weights, strict=True):
        one, other = weighted_scores(scores, response, [1.0] * len(response.acts))
        sampling, deciding = sampling + weight * one, deciding + weight * other
    return float(sampling.norm() / deciding.norm())


def sft_weights(world: TokenWorld) -> list[float]:
    """The weights of eq. 16's two sums: the SFT gradient of a response, solved for by least squares on its two parts."""
    theta = world.policy(0)
    response: Response = next(each for each in world.responses if len(each.attempts) == 2)
    place = world.responses.index(response)
    gradient = torch.func.grad(lambda weights: world.response_logps(world.logps(weights))[place])(theta)
    parts = torch.stack(weighted_scores(world.scores(theta), response, [1.0] * len(response.acts)), 1)
    return [float(each) for each in torch.linalg.lstsq(parts, gradient[:, None]).solution.flatten()]


# --- rules ----------------------------------------------------------------------------------------------------------


def theorem(figures: Figures) -> Finding:
    """Judge eq. 9 with and without the discount."""
    errors = figures["errors"]
    verdict: ClaimVerdict = "does not hold"
    if errors["1.0"] <= EXACT:
        verdict = "holds" if all(error <= EXACT for error in errors.values()) else "holds in part"
    found = (
        f"with gamma = 1 the advantage multiplies both parts alike (error {errors['1.0']:.1g}); the surrogate has no discount, "
        f"and the printed gamma^len puts its gradient off by {errors['0.99']:.1%} at 0.99, {errors['0.9']:.1%} at 0.9"
    )
    return Finding(verdict, found, Estimate(errors["0.9"], n=NUM_WORLDS))


def exponent(figures: Figures) -> Finding:
    """Judge where the sum in Q_d begins."""
    ratio = max(figures["exponent_ratio"])
    found = (
        f"at a decision the printed factor is {ratio:.2f} of gamma^(tokens still to come), attempts of two tokens, gamma 0.9: "
        "its sum should begin with the next attempt"
    )
    return Finding("holds" if abs(ratio - 1) <= EXACT else "does not hold", found, Estimate(ratio))


def advantage_is_q(figures: Figures) -> Finding:
    """A response's advantage against a value of states and actions."""
    left = sum(figures["open"]) / len(figures["open"])
    found = f"{left:.0%} of the advantage's variance is still open once state and action are known: it is a return, not a Q-value"
    return Finding("holds" if left <= 0.05 else "does not hold", found, Estimate(left, n=len(figures["open"])))


def balanced_pressure(figures: Figures) -> Finding:
    """Judge whether equal weights give equal gradients."""
    row = figures["ratios"]["reward"]
    shown = ", ".join(f"{ratio:.2f}" for ratio in row)
    found = (
        f"sampling part over decision part of the reward's gradient, attempts of 1, 2, 3, 4 tokens: {shown} "
        f"(like L^{figures['exponents']['reward']:.2f}): one weight, but sum L_k sampling terms against T decisions"
    )
    even = max(row) / min(row) <= 2
    return Finding("holds" if even else "holds in part", found, Estimate(figures["exponents"]["reward"]))


def sft_unbalanced(figures: Figures) -> Finding:
    """Judge SFT by Theorem 3.1's own criterion."""
    sampling, deciding = figures["weights"]["sft"]
    same = abs(sampling / deciding - 1) <= 1e-6
    exponents = figures["exponents"]
    found = (
        f"eq. 16 weighs its sampling and decision sums by {sampling:.6f} and {deciding:.6f}, as eq. 9 does with A; the parts "
        f"grow alike with the length (L^{exponents['sft']:.2f} for SFT, L^{exponents['reward']:.2f} for the reward)"
    )
    return Finding("does not hold" if same else "holds", found, Estimate(sampling / deciding))


STUDY = Study(
    id="004-theorem-3-1",
    paper="004",
    title="Theorem 3.1: balanced attribution of the surrogate reward",
    claims=(
        Claim(
            id="004-theorem-3-1-weights",
            place="Theorem 3.1, eq. 9-10",
            text="sampling and decisions are weighed by the same gamma^len A",
            printed="Q_sample = Q_d = gamma^(sum of lengths) A",
            judge=theorem,
            erratum=True,
        ),
        Claim(
            id="004-theorem-3-1-exponent",
            place="Theorem 3.1",
            text="a decision's value is discounted by the tokens from its own attempt on",
            printed="exponent: sum from j = k",
            judge=exponent,
            erratum=True,
        ),
        Claim(
            id="004-theorem-3-1-q-values",
            place="Theorem 3.1, A.4",
            text="the advantage of a response is the Q-value of its actions",
            printed="'both Q-values equal the length-discounted advantage'",
            judge=advantage_is_q,
        ),
        Claim(
            id="004-balanced",
            place="Sec. 1, 3.3.1",
            text="surrogate rewards put symmetric learning pressure on sampling and deciding",
            printed="'symmetric learning pressure'",
            judge=balanced_pressure,
            erratum=True,
        ),
        Claim(
            id="004-sft-unbalanced",
            place="Abstract, App. D",
            text="the surrogate reward is balanced and SFT is not",
            printed="RL balanced, SFT imbalanced",
            judge=sft_unbalanced,
            erratum=True,
        ),
    ),
    run=run,
    seconds={"cpu": 60},
    about="mathematics",
    model="exact worlds",
)
