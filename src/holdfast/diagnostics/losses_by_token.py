"""Every objective whose gradient can be split by role: the loss of each token, and what its expected gradient is (MATH §3)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast import objectives
from holdfast.config import InputError, nearest_or_all
from holdfast.heads import TokenStats


@dataclass(frozen=True)
class Tokens:
    """The target tokens of a batch: statistics, roles, places, and what RL says about each of them."""

    stats: TokenStats
    role: Tensor
    position: Tensor
    row: Tensor  # which response a token belongs to
    logp_old: Tensor  # of the policy that wrote the response: constants
    advantage: Mapping[str, Tensor]  # by kind of reward: outcome, partial, process


TokenLoss = Callable[[Tokens], Tensor]


@dataclass(frozen=True)
class Objective:
    """A loss per token, and the gradient it stands for in expectation over responses of the policy itself."""

    loss: TokenLoss
    expected: str
    needs_anchor: bool = False


def _supervised(name: str) -> TokenLoss:
    function = objectives.REGISTRY[name]
    takes = [key for key in ("role", "position") if key in inspect.signature(function).parameters]

    def loss(tokens: Tokens) -> Tensor:
        return function(tokens.stats, **{key: getattr(tokens, key) for key in takes})

    return loss


def reward(kind: str) -> TokenLoss:
    """-A logp: REINFORCE, which is the surrogate at ratio 1 ([004] eq. 9)."""
    return lambda tokens: -tokens.advantage[kind] * tokens.stats.logp


def surrogate(*, clip: float | None) -> TokenLoss:
    """-min(r A, clip(r) A), r = policy / the policy that wrote it, token by token."""

    def loss(tokens: Tokens) -> Tensor:
        ratio = (tokens.stats.logp - tokens.logp_old).exp()
        advantage = tokens.advantage["outcome"]
        if clip is None:
            return -ratio * advantage
        return -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)

    return loss


def kl_in_loss(estimator: str) -> TokenLoss:
    """k1 = -x, k2 = x^2 / 2, k3 = e^x - x - 1 with x = logp_ref - logp, differentiated as they stand."""

    def loss(tokens: Tokens) -> Tensor:
        x = tokens.stats.need("logp_ref") - tokens.stats.logp
        return {"k1": lambda: -x, "k2": lambda: x.square() / 2, "k3": lambda: x.exp() - x - 1}[estimator]()

    return loss


def kl_in_reward(tokens: Tokens) -> Tensor:
    """logp times the divergence from this token to the end of the response, a constant ([004] Thm 3.2, γ = 1)."""
    log_ratio = (tokens.stats.logp - tokens.stats.need("logp_ref")).detach()
    return tokens.stats.logp * to_go(log_ratio, tokens.row)


def to_go(values: Tensor, row: Tensor) -> Tensor:
    """Sum of the values from each token to the end of its row; the tokens of a row lie side by side, in order."""
    after = values.flip(0).cumsum(0).flip(0)
    last = torch.cat([row[1:] != row[:-1], row.new_ones(1, dtype=torch.bool)])
    beyond = torch.where(last, after - values, 0.0)  # what belongs to later rows, noted at the end of each row
    ends = last.nonzero().squeeze(1)
    return after - beyond[ends[torch.searchsorted(ends, torch.arange(len(row), device=row.device))]]


NLL = "of -log p(data): KL(data || policy)"
OBJECTIVES: dict[str, Objective] = {
    "reward": Objective(reward("outcome"), "of minus the expected reward"),
    "partial_credit": Objective(reward("partial"), "of minus the expected share of right digits"),
    "process_reward": Objective(reward("process"), "of minus the expected sum of step rewards"),
    "ratio": Objective(surrogate(clip=None), "of minus the reward, importance-weighted to the policy that wrote the data"),
    "ratio_clipped": Objective(surrogate(clip=0.2), "biased: tokens beyond the clip have no gradient"),
    "kl_reward": Objective(kl_in_reward, "of KL(policy || reference) over whole responses, later states included", True),
    "kl_loss_k1": Objective(kl_in_loss("k1"), "zero", True),
    "kl_loss_k2": Objective(kl_in_loss("k2"), "of KL(policy || reference) at the states visited", True),
    "kl_loss_k3": Objective(kl_in_loss("k3"), "of KL(reference || policy) at the states visited", True),
    "sft": Objective(_supervised("sft"), NLL),
    "masked_sft": Objective(_supervised("masked_sft"), f"{NLL}, error tokens left out"),
    "dft": Objective(_supervised("dft"), "of minus the sum of token probabilities"),
    "csft": Objective(_supervised("csft"), f"{NLL}, weighed by distance from the anchor", True),
    "csft_pa": Objective(_supervised("csft_pa"), "csft plus preference for the anchor's tokens", True),
}  # fmt: skip


def find_objectives(names: Sequence[str] | None, *, has_anchor: bool) -> dict[str, Objective]:
    """Those asked for, or all that can be computed without an anchor, or with it."""
    for name in names or []:
        if name not in OBJECTIVES:
            raise InputError(f"--objective: no '{name}'{nearest_or_all(name, OBJECTIVES)}")
        if OBJECTIVES[name].needs_anchor and not has_anchor:
            raise InputError(f"--objective {name}: needs --anchor")
    return {
        name: objective
        for name, objective in OBJECTIVES.items()
        if (name in names if names else has_anchor or not objective.needs_anchor)
    }
