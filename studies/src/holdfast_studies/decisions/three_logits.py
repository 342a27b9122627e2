"""The smallest two-stage model: three logits ([004] Fig. 3, App. C). Closed forms, float64, no autograd.

s: an attempt is right with σ(s). dC: it stops on a right one with σ(dC). dW: it resamples a wrong one with σ(dW). An attempt
is ``length`` tokens long; the model has one logit for all of them, so length enters as a factor where the text says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Action = Literal["C", "W", "STOP", "RESAMPLE"]


class Logits(NamedTuple):
    """A point of the model, or a gradient at one."""

    s: float
    dC: float  # noqa: N815  (the paper's names)
    dW: float  # noqa: N815

    def plus(self, other: Logits, weight: float = 1.0) -> Logits:
        """self + weight * other."""
        return Logits(*(mine + weight * theirs for mine, theirs in zip(self, other, strict=True)))

    @property
    def rates(self) -> tuple[float, float, float]:
        """The probabilities p_s, p_dC and p_dW."""
        return sigmoid(self.s), sigmoid(self.dC), sigmoid(self.dW)


class Taken(NamedTuple):
    """One action with the index of the logit that took it and whether that logit speaks for it or against."""

    action: Action
    logit: int
    favours: bool


def sigmoid(x: float) -> float:
    """1 / (1 + e^-x)."""
    return 1 / (1 + math.exp(-x))


def read_trajectory(actions: Sequence[Action]) -> list[Taken]:
    """Which logit takes which action: after C it is dC that stops, after W it is dW that resamples."""
    steps: list[Taken] = []
    right = False
    for action in actions:
        if action in ("C", "W"):
            right = action == "C"
            steps.append(Taken(action, 0, right))
        else:
            steps.append(Taken(action, 1 if right else 2, (action == "STOP") == right))
    return steps


def logp(step: Taken, theta: Logits) -> float:
    """log-probability of a step."""
    p = sigmoid(theta[step.logit])
    return math.log(p if step.favours else 1 - p)


def score(step: Taken, theta: Logits) -> float:
    """Its derivative in the step's own logit: 1 - p, or -p."""
    p = sigmoid(theta[step.logit])
    return 1 - p if step.favours else -p


# --- exact expectations ---------------------------------------------------------------------------------------------


def stop_chance(theta: Logits) -> float:
    """h = p_s p_dC + (1 - p_s)(1 - p_dW): an attempt is the last one. 1 / h attempts are made on average."""
    p_s, p_dc, p_dw = theta.rates
    return p_s * p_dc + (1 - p_s) * (1 - p_dw)


def expected_accuracy(theta: Logits) -> float:
    """MATH §5's formula at these logits."""
    p_s, p_dc, _ = theta.rates
    return p_s * p_dc / stop_chance(theta)


def reward_gradient(theta: Logits) -> Logits:
    """The gradient of the expected reward, acc (1 - acc) (1, 1 - p_dC, p_dW).

    It follows from log-odds(accuracy) = s + log σ(dC) - log σ(-dW).
    """
    accuracy = expected_accuracy(theta)
    spread = accuracy * (1 - accuracy)
    _, p_dc, p_dw = theta.rates
    return Logits(spread, spread * (1 - p_dc), spread * p_dw)


def expected_kl(theta: Logits, reference: Logits, *, length: float = 1.0) -> float:
    """KL(policy || reference) over whole trajectories: divergence of one round, times the rounds made."""
    return _round_kl(theta, reference, length) / stop_chance(theta)


def reward_kl_gradient(theta: Logits, reference: Logits, *, length: float = 1.0) -> Logits:
    """Its gradient: that of k1 in the reward. Deciding to go on pays for all later rounds, so the decisions' part
    grows with the length as well."""
    p_s, p_dc, p_dw = theta.rates
    rounds = 1 / stop_chance(theta)
    total = expected_kl(theta, reference, length=length)
    of_round = loss_kl_gradient(
        theta, reference, estimator="k2", length=length
    )  # of the rounds made, states held fixed
    moved = p_s * (1 - p_s) * (bernoulli_kl(theta.dC, reference.dC) - bernoulli_kl(theta.dW, reference.dW))
    stop = Logits(p_s * (1 - p_s) * (p_dc + p_dw - 1), p_s * p_dc * (1 - p_dc), -(1 - p_s) * p_dw * (1 - p_dw))
    return of_round.plus(Logits(moved * rounds, 0.0, 0.0)).plus(stop, -total * rounds)


def loss_kl_gradient(theta: Logits, reference: Logits, *, estimator: str, length: float = 1.0) -> Logits:
    """Expected gradient of an estimator *in the loss*, on-policy: nothing flows through which states are reached.

    k1: 0. k2: of KL(policy || reference) at each state. k3: of KL(reference || policy) at each state (MATH §3).
    """
    p_s = theta.rates[0]
    rounds = 1 / stop_chance(theta)
    visits = (length * rounds, p_s * rounds, (1 - p_s) * rounds)
    if estimator == "k1":
        return Logits(0.0, 0.0, 0.0)
    parts = []
    for logit, ref, visit in zip(theta, reference, visits, strict=True):
        p, q = sigmoid(logit), sigmoid(ref)
        parts.append(visit * (p * (1 - p) * (logit - ref) if estimator == "k2" else p - q))
    return Logits(*parts)


def bernoulli_kl(logit: float, reference: float) -> float:
    """KL between two coins given by their logits."""
    p, q = sigmoid(logit), sigmoid(reference)
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def _round_kl(theta: Logits, reference: Logits, length: float) -> float:
    p_s = theta.rates[0]
    s, dc, dw = (bernoulli_kl(logit, ref) for logit, ref in zip(theta, reference, strict=True))
    return length * s + p_s * dc + (1 - p_s) * dw


# --- training ([004] Fig. 3) ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moment:
    """One step of training: where the logits are, what pushes them and what drags."""

    step: int
    theta: Logits
    accuracy: float
    push: Logits
    drag: Logits
    refreshed: bool  # the reference was set to the policy just before


def train(
    theta: Logits,
    *,
    steps: int,
    lr: float = 0.5,
    kl_weight: float = 0.05,
    length: float = 8.0,
    refresh_every: int | None = None,
    placement: Literal["reward", "k2", "k3"] = "reward",
) -> Iterator[Moment]:
    """Gradient ascent on expected reward minus ``kl_weight`` times KL, exact in expectation.

    With ``refresh_every`` the reference follows the policy now and then. Right after that there is no drag; it then
    grows with the distance until the next time: the cycles of Fig. 3 (the paper's footnote 16).
    """
    reference = theta
    for step in range(steps):
        refreshed = refresh_every is not None and step > 0 and step % refresh_every == 0
        reference = theta if refreshed else reference
        push = reward_gradient(theta)
        kl = (
            reward_kl_gradient(theta, reference, length=length)
            if placement == "reward"
            else loss_kl_gradient(theta, reference, estimator=placement, length=length)
        )
        drag = Logits(*(-kl_weight * part for part in kl))
        yield Moment(step, theta, expected_accuracy(theta), push, drag, refreshed)
        theta = theta.plus(push, lr).plus(drag, lr)
