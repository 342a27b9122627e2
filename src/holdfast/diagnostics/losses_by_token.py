"""Every objective whose gradient can be split by role: the loss of each token, and what its expected gradient is (MATH §3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast import objectives
from holdfast.config import InputError, nearest_or_all
from holdfast.heads import TokenStats
from holdfast.objectives import Objective


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
class LossByToken:
    """A loss per token, and the gradient it stands for in expectation over responses of the policy itself."""

    loss: TokenLoss
    expected: str
    needs_anchor: bool = False


def _supervised(objective: Objective) -> LossByToken:
    return LossByToken(
        lambda tokens: objective.on(tokens.stats, tokens.role, tokens.position),
        objective.expected,
        objective.needs_anchor,
    )


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


OF_RL: dict[str, LossByToken] = {
    "reward": LossByToken(reward("outcome"), "of minus the expected reward"),
    "partial_credit": LossByToken(reward("partial"), "of minus the expected share of right digits"),
    "process_reward": LossByToken(reward("process"), "of minus the expected sum of step rewards"),
    "ratio": LossByToken(surrogate(clip=None), "of minus the reward, importance-weighted to the policy that wrote the data"),
    "ratio_clipped": LossByToken(surrogate(clip=0.2), "biased: tokens beyond the clip have no gradient"),
    "kl_reward": LossByToken(kl_in_reward, "of KL(policy || reference) over whole responses, later states included", True),
    "kl_loss_k1": LossByToken(kl_in_loss("k1"), "zero", True),
    "kl_loss_k2": LossByToken(kl_in_loss("k2"), "of KL(policy || reference) at the states visited", True),
    "kl_loss_k3": LossByToken(kl_in_loss("k3"), "of KL(reference || policy) at the states visited", True),
}  # fmt: skip


def find_objectives(names: str | Sequence[str] | None, *, has_anchor: bool) -> dict[str, LossByToken]:
    """The one or those asked for, or all that can be computed without an anchor, or with it.

    Besides those of RL, every registered objective that says what its expected gradient is.
    """
    known = OF_RL | {
        name: _supervised(objective) for name, objective in objectives.REGISTRY.items() if objective.expected
    }
    names = [names] if isinstance(names, str) else names
    for name in names or []:
        if name in objectives.REGISTRY and name not in known:
            raise InputError(
                f"objectives=: {name} does not say which gradient it stands for: give its Objective(..., expected=...)"
            )
        if name not in known:
            raise InputError(f"objectives=: no '{name}'{nearest_or_all(name, known)}")
        if known[name].needs_anchor and not has_anchor:
            raise InputError(f"objectives={name}: needs anchor=")
    return {
        name: loss for name, loss in known.items() if (name in names if names else has_anchor or not loss.needs_anchor)
    }
