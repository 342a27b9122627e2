"""[004] Lemmas 1-4 and Corollary 1: identities, checked where every response can be listed.

Set-up: ten worlds of attempts of two tokens, at most three attempts (``token_world``), one network with shared weights, float64.
Measures: the largest relative error over worlds. Lemma 1: how long responses get and how often they are right, by products
against a chain run forward. Corollary 1: gradients by autograd against sums of parts. Lemma 2: the gradient of the expected
return against sums of score times Q, Q by listing; with discount 1, and with 0.9 per attempt. Lemma 3: the SFT gradient as a
policy gradient whose reward is data / policy. Lemma 4: the gradient of sg(p) log p against that of p; and eq. 24 as printed,
without the stop-gradient. Rules: an identity holds if the error is at most 1e-9; Lemma 2 holds in part if it does so for
discount 1 alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.stats import Estimate
from holdfast_studies.papers.study import Claim, ClaimVerdict, Figures, Finding, Machine, OnProgress, Study
from holdfast_studies.papers.token_world import (
    RESAMPLE,
    STOP,
    Response,
    TokenWorld,
    attempt_ends,
    attempt_of,
    given_so_far,
    relative_error,
    weighted_scores,
)

NUM_WORLDS = 10
EXACT = 1e-9
DISCOUNT = 0.9


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """The largest error of each identity."""
    worst: dict[str, float] = {}
    for seed in range(NUM_WORLDS):
        for name, error in errors(TokenWorld(seed=seed)).items():
            worst[name] = max(worst.get(name, 0.0), error)
        on_progress((seed + 1) / NUM_WORLDS)
    return {**worst, "worlds": NUM_WORLDS}


def errors(world: TokenWorld) -> dict[str, float]:
    """The largest error of each identity in one world."""
    theta, scores = world.policy(0), world.scores(world.policy(0))
    return {
        "lemma_1": factorisation_error(world, theta),
        "corollary_1": decomposition_error(world, theta, scores),
        "lemma_2": policy_gradient_error(world, theta, scores, discount=1.0),
        "lemma_2_discounted": policy_gradient_error(world, theta, scores, discount=DISCOUNT),
        **supervised_errors(world, theta),
    }


def factorisation_error(world: TokenWorld, theta: Tensor) -> float:
    """P(number of attempts = k, the last one right), by products and by a chain of states."""
    logps = world.logps(theta)
    chances = world.response_logps(logps).exp().tolist()
    texts = sorted({response.attempts[0] for response in world.responses})

    def writes(before: tuple[int, ...] | None, text: tuple[int, ...]) -> float:
        places = [world.contexts[before, text[:place], False] for place in range(world.length)]
        return float(torch.stack([logps[place, token] for place, token in zip(places, text, strict=True)]).sum().exp())

    visits = {text: writes(None, text) for text in texts}
    error = 0.0
    for number in range(1, world.max_attempts + 1):
        decide = {text: logps[world.contexts[None, text, True]].exp().tolist() for text in texts}
        stops = {text: decide[text][STOP] if number < world.max_attempts else 1.0 for text in texts}
        for right in (True, False):
            chain = sum(visits[text] * stops[text] for text in texts if (not any(text)) == right)
            listed = sum(
                chance
                for response, chance in zip(world.responses, chances, strict=True)
                if len(response.attempts) == number and response.right == right
            )
            error = max(error, abs(chain - listed) / chain)
        visits = {
            text: sum(visits[before] * decide[before][RESAMPLE] * writes(before, text) for before in texts)
            for text in texts
        }
    return error


def decomposition_error(world: TokenWorld, theta: Tensor, scores: Tensor) -> float:
    """grad log P(response) against the sum of the parts' gradients."""
    whole = torch.func.jacrev(lambda weights: world.response_logps(world.logps(weights)))(theta)
    return max(
        relative_error(torch.stack(weighted_scores(scores, response, [1.0] * len(response.acts))).sum(0), gradient)
        for response, gradient in zip(world.responses, whole, strict=True)
    )


def policy_gradient_error(world: TokenWorld, theta: Tensor, scores: Tensor, *, discount: float) -> float:
    """The gradient of E[discount^(attempts - 1) R] against Lemma 2's sum, in which nothing is discounted but Q."""
    late = torch.tensor([discount ** (len(response.attempts) - 1) for response in world.responses], dtype=torch.float64)

    def value(weights: Tensor) -> Tensor:
        return (world.response_logps(world.logps(weights)).exp() * late * world.rewards).sum()

    exact = torch.func.grad(value)(theta)
    chances = world.response_logps(world.logps(theta)).exp()
    to_go = [
        [discount ** (len(response.attempts) - 1 - number) * float(response.right) for number in attempt_of(response)]
        for response in world.responses
    ]
    found = torch.zeros_like(exact)
    for response, chance, row in zip(world.responses, chances, given_so_far(world, chances, to_go), strict=True):
        found = found + chance * torch.stack(weighted_scores(scores, response, _at_ends(response, row))).sum(0)
    return relative_error(found, exact)


def _at_ends(response: Response, row: list[float]) -> list[float]:
    """A whole attempt is one action of Lemma 2: its tokens share the Q-value it has once written."""
    return [row[end] for end in attempt_ends(response)]


def supervised_errors(world: TokenWorld, theta: Tensor) -> dict[str, float]:
    """Lemmas 3 and 4 on responses of another policy."""
    written = world.response_logps(world.logps(world.policy(1))).exp()
    logps = world.logps(theta)
    visits = torch.zeros_like(logps)  # how often the data take each action in each context
    for response, chance in zip(world.responses, written, strict=True):
        for act in response.acts:
            visits[act.context, act.action] += chance

    def likelihood(weights: Tensor) -> Tensor:
        return (written * world.response_logps(world.logps(weights))).sum()

    def printed_dft(weights: Tensor) -> Tensor:
        own = world.logps(weights)
        return (visits * own.exp() * own).sum()

    def weighed(weights: Tensor) -> Tensor:
        return (visits * logps.exp() * world.logps(weights)).sum()  # logps are constants here: the stop-gradient

    slope = torch.func.jacrev(lambda weights: world.logps(weights).exp())(theta)  # of the probabilities themselves
    sft, dft = torch.func.grad(likelihood)(theta), torch.func.grad(weighed)(theta)
    as_rewards = ((visits / logps.exp())[..., None] * slope).sum((0, 1))
    return {
        "lemma_3": relative_error(as_rewards, sft),
        "lemma_4": relative_error((visits[..., None] * slope).sum((0, 1)), dft),
        "equation_24": relative_error(torch.func.grad(printed_dft)(theta), dft),
    }


# --- rules ----------------------------------------------------------------------------------------------------------


def _identity(name: str, what: str, figures: Figures) -> Finding:
    error = figures[name]
    found = f"{what}: relative error at most {error:.1g} in {figures['worlds']} worlds"
    return Finding("holds" if error <= EXACT else "does not hold", found, Estimate(error, n=figures["worlds"]))


def lemma_1(figures: Figures) -> Finding:
    """Judge whether a response's probability factorises into acts."""
    return _identity("lemma_1", "numbers of attempts and accuracy, products against a chain of states", figures)


def corollary_1(figures: Figures) -> Finding:
    """Judge whether the score is the sum of the two kinds' scores."""
    return _identity("corollary_1", "gradient of log P(response) against the sum of its parts", figures)


def lemma_2(figures: Figures) -> Finding:
    """Judge the policy gradient with and without a discount."""
    plain, discounted = figures["lemma_2"], figures["lemma_2_discounted"]
    verdict: ClaimVerdict = "does not hold"
    if plain <= EXACT:
        verdict = "holds" if discounted <= EXACT else "holds in part"
    found = (
        f"relative error {plain:.1g} with discount 1 and up to {discounted:.2g} with {DISCOUNT}: "
        "then every term needs the discount of its own time, which the lemma leaves out"
    )
    return Finding(verdict, found, Estimate(discounted, n=figures["worlds"]))


def lemma_3(figures: Figures) -> Finding:
    """Judge whether SFT is the policy gradient of the implicit reward."""
    return _identity("lemma_3", "SFT gradient against the gradient of probabilities weighed by data / policy", figures)


def lemma_4(figures: Figures) -> Finding:
    """Judge whether DFT's weight cancels the implicit reward."""
    return _identity("lemma_4", "sg(p) grad log p against grad p", figures)


def equation_24(figures: Figures) -> Finding:
    """Judge whether eq. 26 is the gradient of the objective as printed."""
    error = figures["equation_24"]
    found = (
        f"without the stop-gradient the gradient of eq. 24 is (1 + log p) grad p: off by {error:.2g} of eq. 26's length"
    )
    return Finding("holds" if error <= EXACT else "does not hold", found, Estimate(error, n=figures["worlds"]))


STUDY = Study(
    id="004-identities",
    paper="004",
    title="Lemmas 1-4 and Corollary 1",
    claims=(
        Claim(
            id="004-lemma-1",
            place="Lemma 1, A.1",
            text="a response's probability is a product of sampling and decision probabilities",
            printed="an identity",
            judge=lemma_1,
        ),
        Claim(
            id="004-corollary-1",
            place="Corollary 1, A.2",
            text="the gradient of a response's log-probability is the sum of the sampling and decision gradients",
            printed="an identity",
            judge=corollary_1,
        ),
        Claim(
            id="004-lemma-2",
            place="Lemma 2, A.3",
            text="the gradient of the expected return is the expected sum of scores times Q, for any discount in (0, 1]",
            printed="gamma in (0, 1]",
            judge=lemma_2,
            erratum=True,
        ),
        Claim(
            id="004-lemma-3",
            place="Lemma 3, eq. 16",
            text="the SFT gradient is a policy gradient with implicit reward 1 / policy",
            printed="an identity",
            judge=lemma_3,
        ),
        Claim(
            id="004-lemma-4",
            place="Lemma 4, eq. 25",
            text="weighing by the probability cancels the 1 / policy: p grad log p = grad p",
            printed="an identity",
            judge=lemma_4,
            rule="changed",
        ),
        Claim(
            id="004-equation-24",
            place="eq. 24 against eq. 26",
            text="eq. 26 is the gradient of the DFT objective of eq. 24",
            printed="no stop-gradient",
            judge=equation_24,
            erratum=True,
        ),
    ),
    run=run,
    seconds={"cpu": 25},
    about="mathematics",
    model="exact worlds",
)
