"""[004] Table 5: which objective's weights depend on what, tested instead of copied.

Set-up: ten worlds of attempts of two tokens, at most three (``token_world``). The weight that multiplies grad
log-probability of an action *in the gradient itself*: SFT (eq. 16) 1; DFT (eq. 26) the action's own probability; RL the
exact Q-value, E[reward | so far], gamma = 1. Rows 1 and 2: move the weights of the token head alone (the decision head
alone) by noise of 0.1 and look at the weights of decisions (of tokens); features and hidden layer stay, so that a head
moves its own policy only. Row 3: the weight of a first decision to go on, over all responses that begin with the same
attempt and that decision: does it vary with how much is written afterwards? RL also with the theorem's own gamma^(later
tokens), gamma = 0.99. A cell says yes if a weight changes by more than 1e-9.
Rules: a row holds if all three cells are as printed, in part if some are, else not. Rows 4 and 5 (a unified statistic,
balance): the printed ranking SFT < DFT < RL is tested on the spread of the two parts' weights: the ratio of the mean weight
of tokens to that of decisions should be furthest from 1 for SFT and nearest for RL.
"""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.stats import Estimate
from holdfast_studies.papers.study import Claim, ClaimVerdict, Figures, Finding, Machine, OnProgress, Study
from holdfast_studies.papers.token_world import Act, TokenWorld, attempt_of, given_so_far

NUM_WORLDS = 10
CHANGED = 1e-9
METHODS = ("sft", "dft", "rl")
PRINTED = {"decisions": (True, False, False), "tokens": (True, False, False), "lengths": (True, True, False)}


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """The largest change of each cell, and the parts' mean weights."""
    changes: dict[str, dict[str, float]] = {
        row: dict.fromkeys(METHODS, 0.0) for row in ("decisions", "tokens", "lengths")
    }
    ratios: dict[str, list[float]] = {method: [] for method in METHODS}
    discounted = 0.0
    for seed in range(NUM_WORLDS):
        world = TokenWorld(seed=seed)
        theta = world.policy(0)
        for method in METHODS:
            before = weights(world, theta, method)
            ratios[method].append(
                float(_part(world, before, decides=False).mean() / _part(world, before, decides=True).mean())
            )
            for row, head, decides in (("decisions", world.token_head, True), ("tokens", world.decision_head, False)):
                moved = theta.clone()
                moved[head] += world.policy(2, scale=0.1)[head]
                after = weights(world, moved, method)
                change = (_part(world, after, decides=decides) - _part(world, before, decides=decides)).abs().max()
                changes[row][method] = max(changes[row][method], float(change))
            changes["lengths"][method] = max(changes["lengths"][method], spread_over_futures(world, before))
        discounted = max(discounted, spread_over_futures(world, discounted_returns(world, 0.99)))
        on_progress((seed + 1) / NUM_WORLDS)
    return {"changes": changes, "rl_lengths_discounted": discounted, "ratios": ratios}


def weights(world: TokenWorld, theta: Tensor, method: str) -> list[list[float]]:
    """What multiplies the score of every act of every response."""
    logps = world.logps(theta)
    if method == "rl":
        rewards = [[float(response.right)] * len(response.acts) for response in world.responses]
        return given_so_far(world, world.response_logps(logps).exp(), rewards)
    chances = logps.exp()
    return [
        [1.0 if method == "sft" else float(chances[act.context, act.action]) for act in response.acts]
        for response in world.responses
    ]


def discounted_returns(world: TokenWorld, gamma: float) -> list[list[float]]:
    """Theorem 3.1's gamma^(tokens of this and later attempts), for an advantage of 1."""
    return [
        [gamma ** (world.length * (len(response.attempts) - number)) for number in attempt_of(response)]
        for response in world.responses
    ]


def spread_over_futures(world: TokenWorld, rows: list[list[float]]) -> float:
    """How far the weight of a first RESAMPLE varies between responses that are the same up to there."""
    seen: dict[tuple[Act, ...], list[float]] = {}
    for response, row in zip(world.responses, rows, strict=True):
        if len(response.attempts) > 1:
            seen.setdefault(response.acts[: world.length + 1], []).append(row[world.length])
    return max(max(weights_seen) - min(weights_seen) for weights_seen in seen.values())


def _part(world: TokenWorld, rows: list[list[float]], *, decides: bool) -> Tensor:
    return torch.tensor(
        [
            weight
            for response, row in zip(world.responses, rows, strict=True)
            for act, weight in zip(response.acts, row, strict=True)
            if act.decides == decides
        ],
        dtype=torch.float64,
    )


# --- rules ----------------------------------------------------------------------------------------------------------


def _row(name: str, figures: Figures, remark: str = "") -> Finding:
    measured = [figures["changes"][name][method] > CHANGED for method in METHODS]
    agree = sum(found == printed for found, printed in zip(measured, PRINTED[name], strict=True))
    verdict: ClaimVerdict = "holds" if agree == len(METHODS) else "holds in part" if agree else "does not hold"
    words = ["yes" if each else "no" for each in measured]
    return Finding(
        verdict, f"SFT {words[0]}, DFT {words[1]}, RL {words[2]} in the gradients themselves{remark}", Estimate(agree)
    )


def decisions(figures: Figures) -> Finding:
    """Judge row 1 of the table."""
    change = figures["changes"]["decisions"]["rl"]
    return _row(
        "decisions",
        figures,
        f": what going on is worth depends on how good the next attempts are (by up to {change:.2f})",
    )


def tokens(figures: Figures) -> Finding:
    """Judge row 2 of the table."""
    change = figures["changes"]["tokens"]["rl"]
    return _row(
        "tokens", figures, f": what an attempt is worth depends on whether it will be kept (by up to {change:.2f})"
    )


def lengths(figures: Figures) -> Finding:
    """Judge row 3 of the table."""
    return _row(
        "lengths",
        figures,
        f"; with the discount of Theorem 3.1 RL yes (by {figures['rl_lengths_discounted']:.3f} at 0.99)",
    )


def attribution(figures: Figures) -> Finding:
    """Judge rows 4 and 5 of the table."""
    means = {method: sum(row) / len(row) for method, row in figures["ratios"].items()}
    uneven = {method: max(mean, 1 / mean) for method, mean in means.items()}
    ranked = uneven["sft"] > uneven["dft"] > uneven["rl"]
    each = ", ".join(f"{method.upper()} {mean:.2f}" for method, mean in means.items())
    found = f"mean weight of tokens over that of decisions: {each}; SFT weighs both alike by construction"
    verdict: ClaimVerdict = "holds" if ranked else "holds in part" if uneven["dft"] > uneven["rl"] else "does not hold"
    return Finding(verdict, found, Estimate(means["sft"], n=len(figures["ratios"]["sft"])))


def _claim(number: int, name: str, text: str, printed: str, judge: object, *, erratum: bool = False) -> Claim:
    return Claim(
        id=f"004-table-5-{name}",
        place=f"Table 5, row {number}",
        text=text,
        printed=printed,
        judge=judge,  # type: ignore[arg-type]
        erratum=erratum,
    )


STUDY = Study(
    id="004-table-5",
    paper="004",
    title="Table 5: properties of SFT, DFT and RL",
    claims=(
        _claim(
            1, "decisions", "a decision's weight depends on the sampling policy", "SFT yes, DFT no, RL no", decisions
        ),
        _claim(2, "sampling", "a token's weight depends on the decision policy", "SFT yes, DFT no, RL no", tokens),
        _claim(
            3,
            "lengths",
            "a decision's weight depends on later lengths",
            "SFT yes, DFT yes, RL no; but Phi = gamma^(sum of later lengths) A",
            lengths,
            erratum=True,
        ),
        _claim(
            4,
            "attribution",
            "attribution is imbalanced for SFT, improved for DFT, balanced for RL",
            "SFT < DFT < RL",
            attribution,
        ),
    ),
    run=run,
    seconds={"cpu": 22},
    about="mathematics",
    model="exact worlds",
)
