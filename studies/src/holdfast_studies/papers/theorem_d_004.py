"""[004] Appendix D: the Q-values it gives to SFT and DFT, put into its own policy-gradient form (eq. 18).

Set-up: ten worlds of attempts of two tokens, at most three (``token_world``); data = responses of another policy; float64.
Measures. D.1: the gradient of eq. 16 against the sum of scores times the Q-values of eq. 17 (relative error, cosine); eq.
17's Q of a decision to go on against eq. 21's. Corollary 2: eq. 16 against the sum of scores times one constant. D.2: the
gradient of eq. 26 against the sum of scores times the Q-values of eq. 27; the largest Q_d / Q_sample of one attempt by eq.
27, which eq. 33 says is far above 1. What eq. 26 really weighs a score by is the action's own probability: its spread over
actions.
Rules: D.1 and D.2 hold if their Q-values give their gradients to 1e-9. "No unified statistic for SFT" holds if no constant
gives eq. 16 to 1e-9. Eq. 33 holds if the ratio exceeds 1. "Policy-independent" holds if the weight of eq. 26's scores does
not vary.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.stats import Estimate
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study
from holdfast_studies.papers.token_world import Response, TokenWorld, attempt_of, relative_error, weighted_scores

NUM_WORLDS = 10
EXACT = 1e-9


class Found(NamedTuple):
    """One world's figures."""

    sft_error: float
    sft_cosine: float
    recursion_gap: float
    constant_error: float
    dft_error: float
    dft_cosine: float
    decision_over_sampling: float
    lightest: float
    heaviest: float


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Measure all worlds."""
    rows: list[Found] = []
    for seed in range(NUM_WORLDS):
        rows.append(measure(TokenWorld(seed=seed)))
        on_progress((seed + 1) / NUM_WORLDS)
    return {name: [getattr(row, name) for row in rows] for name in Found._fields}


def measure(world: TokenWorld) -> Found:
    """Gradients by autograd against the appendix's Q-values."""
    theta = world.policy(0)
    chance_of, scores = world.logps(theta).exp(), world.scores(theta)
    written = world.response_logps(world.logps(world.policy(1))).exp()
    chances = [[float(chance_of[act.context, act.action]) for act in response.acts] for response in world.responses]

    def likelihood(weights: Tensor) -> Tensor:
        return (written * world.response_logps(world.logps(weights))).sum()

    visits = torch.zeros_like(chance_of)  # how often the data take each action in each context
    for response, share in zip(world.responses, written, strict=True):
        for act in response.acts:
            visits[act.context, act.action] += share

    def weighed(weights: Tensor) -> Tensor:
        return (visits * chance_of * world.logps(weights)).sum()  # eq. 24 with its stop-gradient

    def with_weights(weights: list[list[float]]) -> Tensor:
        total = torch.zeros_like(theta)
        for response, share, row in zip(world.responses, written, weights, strict=True):
            total = total + share * torch.stack(weighted_scores(scores, response, row)).sum(0)
        return total

    sft, dft = torch.func.grad(likelihood)(theta), torch.func.grad(weighed)(theta)
    q_sft = [equation_17(row) for row in chances]
    q_dft = [equation_17([1.0] * len(row)) for row in chances]
    as_sft, as_dft = with_weights(q_sft), with_weights(q_dft)
    own = [chance for row in chances for chance in row]
    return Found(
        sft_error=relative_error(as_sft, sft),
        sft_cosine=_cosine(as_sft, sft),
        recursion_gap=max(equation_21_gap(*each) for each in zip(world.responses, chances, strict=True)),
        constant_error=relative_error(with_weights([[1.0] * len(row) for row in chances]), sft),
        dft_error=relative_error(as_dft, dft),
        dft_cosine=_cosine(as_dft, dft),
        decision_over_sampling=max(decision_over_sampling(*each) for each in zip(world.responses, q_dft, strict=True)),
        lightest=min(own),
        heaviest=max(own),
    )


def equation_17(chances: list[float]) -> list[float]:
    """Q of every act: the sum of 1 / probability of the acts after it. With probabilities of 1 it is eq. 27, c = 1."""
    return [sum(1 / chance for chance in chances[place + 1 :]) for place in range(len(chances))]


def equation_21_gap(response: Response, chances: list[float]) -> float:
    """(eq. 17 - eq. 21) / eq. 17 at decisions to go on: eq. 21 begins after the next attempt's first token."""
    values = equation_17(chances)
    gaps = [
        (values[place] - values[place + 1]) / values[place]
        for place, act in enumerate(response.acts)
        if act.decides and place + 1 < len(response.acts)
    ]
    return max(gaps, default=0.0)


def decision_over_sampling(response: Response, values: list[float]) -> float:
    """Eq. 27: Q_d over Q_sample of a token of the same attempt, at most."""
    numbers = attempt_of(response)
    ratios = [
        values[place] / values[other]
        for place, act in enumerate(response.acts)
        if act.decides
        for other, token in enumerate(response.acts)
        if not token.decides and numbers[other] == numbers[place] and values[other] > 0
    ]
    return max(ratios, default=0.0)


def _cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


# --- rules ----------------------------------------------------------------------------------------------------------


def theorem_d_1(figures: Figures) -> Finding:
    """Judge eq. 17-21 against eq. 16."""
    error, cosine = min(figures["sft_error"]), max(figures["sft_cosine"])
    found = (
        f"eq. 17's Q-values in eq. 18 miss the SFT gradient of eq. 16 by {error:.2g} of its length at best (cosine at most "
        f"{cosine:.2f}), for eq. 16 weighs every score by 1; eq. 21's Q of going on is up to "
        f"{max(figures['recursion_gap']):.0%} below eq. 17's"
    )
    return Finding(
        "holds" if max(figures["sft_error"]) <= EXACT else "does not hold", found, Estimate(error, n=NUM_WORLDS)
    )


def corollary_2(figures: Figures) -> Finding:
    """Judge whether SFT has no unified statistic; the constant 1 is one."""
    error = max(figures["constant_error"])
    found = f"the constant 1 in both places gives eq. 16, error {error:.1g}"
    return Finding("does not hold" if error <= EXACT else "holds", found, Estimate(error, n=NUM_WORLDS))


def theorem_d_2(figures: Figures) -> Finding:
    """Judge eq. 27 against eq. 26."""
    error, cosine = min(figures["dft_error"]), max(figures["dft_cosine"])
    found = (
        f"eq. 27's Q-values in eq. 18 miss the DFT gradient of eq. 26 by {error:.2g} of its length at best "
        f"(cosine at most {cosine:.2f})"
    )
    return Finding(
        "holds" if max(figures["dft_error"]) <= EXACT else "does not hold", found, Estimate(error, n=NUM_WORLDS)
    )


def policy_independent(figures: Figures) -> Finding:
    """Judge whether the numbers that weigh DFT's scores are independent of the policy."""
    low, high = min(figures["lightest"]), max(figures["heaviest"])
    found = (
        f"as a policy gradient DFT weighs each score by the action's own probability ({low:.2g} to {high:.2g}), SFT by 1: "
        "it is DFT whose weights move with the policy"
    )
    return Finding("holds" if high - low <= EXACT else "does not hold", found, Estimate(high / low))


def equation_33(figures: Figures) -> Finding:
    """Judge whether a decision's Q is larger than a token's under DFT."""
    ratio = max(figures["decision_over_sampling"])
    found = f"by eq. 27 a decision's Q is at most {ratio:.2f} of that of any token of its attempt"
    return Finding("holds" if ratio > 1 else "does not hold", found, Estimate(ratio, n=NUM_WORLDS))


STUDY = Study(
    id="004-appendix-d",
    paper="004",
    title="Appendix D: Q-values of SFT and DFT",
    claims=(
        Claim(
            id="004-theorem-d-1",
            place="Theorem D.1, eq. 16-21",
            text="SFT's gradient is the sum of scores times sums of later 1 / policy",
            printed="eq. 17 in eq. 18",
            judge=theorem_d_1,
            erratum=True,
        ),
        Claim(
            id="004-corollary-2",
            place="Corollary 2",
            text="no unified sufficient statistic exists for SFT",
            printed="'in general'",
            judge=corollary_2,
        ),
        Claim(
            id="004-theorem-d-2",
            place="Theorem D.2, eq. 26-27",
            text="DFT's gradient is the sum of scores times constants that count later tokens",
            printed="eq. 27",
            judge=theorem_d_2,
            erratum=True,
        ),
        Claim(
            id="004-theorem-d-2-independent",
            place="Theorem D.2",
            text="DFT's implicit Q-values are independent of the policy, SFT's are not",
            printed="'the Q-values are now policy-independent'",
            judge=policy_independent,
        ),
        Claim(
            id="004-equation-33",
            place="eq. 33 against eq. 27",
            text="under DFT a decision's Q is far larger than a token's",
            printed="O(sum of later lengths) against O(1)",
            judge=equation_33,
            erratum=True,
        ),
    ),
    run=run,
    seconds={"cpu": 25},
    about="mathematics",
    model="exact worlds",
)
