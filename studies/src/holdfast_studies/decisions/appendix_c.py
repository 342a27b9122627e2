"""[004] Appendix C recomputed. Each of its choices is an argument, so that every erratum is a number (MATH §5, §8)."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast_studies.decisions.three_logits import (
    Action,
    Logits,
    expected_accuracy,
    logp,
    read_trajectory,
    reward_gradient,
    reward_kl_gradient,
)
from holdfast_studies.decisions.three_logits import score as score_of

THETA = Logits(s=0.4, dC=2.2, dW=1.4)
REFERENCE = Logits(s=0.3, dC=2.0, dW=1.2)
LENGTH = 8
ADVANTAGE = 0.5
TRAJECTORY: tuple[Action, ...] = ("W", "RESAMPLE", "C", "STOP")


@dataclass(frozen=True)
class Worked:
    """One trajectory worked through. ``penalties`` and ``q_values`` by action; gradients by logit."""

    penalties: tuple[float, ...]  # d_k
    q_values: tuple[float, ...]
    drag: Logits
    push: Logits
    net: Logits


def worked_example(
    theta: Logits = THETA,
    reference: Logits = REFERENCE,
    *,
    trajectory: tuple[Action, ...] = TRAJECTORY,
    advantage: float = ADVANTAGE,
    length: float = LENGTH,
    score_length: float = 1.0,
    kl_weight: float = 1.0,
    sign: float = -1.0,
) -> Worked:
    """Penalties, returns, and the two gradients of one trajectory (γ = 1).

    As printed: the penalty of an attempt is multiplied by its ``length`` but its score is not (``score_length`` 1, against
    the paper's own eq. 3), the KL weight is 1, and d = -log(policy/reference) where the text has +log (``sign``).
    """
    steps = read_trajectory(trajectory)
    penalties = [
        sign * (logp(step, theta) - logp(step, reference)) * (length if step.logit == 0 else 1.0) for step in steps
    ]
    returns = [sum(penalties[k:]) for k in range(len(penalties))]
    drag, push = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    for step, value in zip(steps, returns, strict=True):
        own = score_of(step, theta) * (score_length if step.logit == 0 else 1.0)
        drag[step.logit] += own * value * kl_weight
        push[step.logit] += own * advantage
    pulled, pushed = Logits(*drag), Logits(*push)
    return Worked(tuple(penalties), tuple(returns), pulled, pushed, pushed.plus(pulled))


def token_by_token(
    theta: Logits = THETA, reference: Logits = REFERENCE, *, trajectory: tuple[Action, ...] = TRAJECTORY
) -> Logits:
    """The drag when an attempt is ``LENGTH`` tokens, each drawn by the logit s and weighed by the return from itself on.

    That is eq. 3 with the policy gradient theorem: every token has its own score and pays for what comes after it only.
    """
    steps = [step for step in read_trajectory(trajectory) for _ in range(LENGTH if step.logit == 0 else 1)]
    penalties = [logp(step, reference) - logp(step, theta) for step in steps]
    drag = [0.0, 0.0, 0.0]
    for place, step in enumerate(steps):
        drag[step.logit] += score_of(step, theta) * sum(penalties[place:])
    return Logits(*drag)


def expected_drag(length: float) -> Logits:
    """The expected drag: minus the gradient of KL(policy || reference), the part of the answer weighted by length."""
    return Logits(*(-part for part in reward_kl_gradient(THETA, REFERENCE, length=length)))


@dataclass(frozen=True)
class Compared:
    """A figure of the paper beside the exact one."""

    name: str
    paper: float
    exact: float


def table() -> list[Compared]:
    """Every number of Appendix C, recomputed."""
    worked = worked_example()
    d = dict(zip(("d1_sample", "d1_decision", "d2_sample", "d2_decision"), worked.penalties, strict=True))
    q = dict(zip(("Q sample W", "Q RESAMPLE", "Q sample C", "Q STOP"), worked.q_values, strict=True))
    printed = {
        "d1_sample": 0.4704, "d1_decision": -0.0429, "d2_sample": -0.3320, "d2_decision": -0.0218,
        "Q sample W": 0.0737, "Q RESAMPLE": -0.3967, "Q sample C": -0.3538, "Q STOP": -0.0218,
        "drag s": -0.1861, "drag dW": -0.0785, "drag dC": -0.0022,
        "push s": -0.0987, "push dW": 0.0989, "push dC": 0.0499,
        "net s": -0.2848, "net dW": 0.0204, "net dC": 0.0477,
    }  # fmt: skip
    exact = {**d, **q}
    for name, gradient in (("drag", worked.drag), ("push", worked.push), ("net", worked.net)):
        exact |= {f"{name} {logit}": getattr(gradient, logit) for logit in ("s", "dW", "dC")}
    return [Compared(name, value, exact[name]) for name, value in printed.items()]


@dataclass(frozen=True)
class Erratum:
    """A claim of [004] and the number that contradicts it."""

    claim: str
    found: str
    figures: dict[str, float]


def errata() -> list[Erratum]:
    """What MATH §8 says of Appendix C, computed."""
    printed, even = worked_example(), worked_example(length=1)
    both = worked_example(score_length=LENGTH)
    ratios = {
        "L = 1": _ratio(even.drag),
        "8 in the penalty, as printed": _ratio(printed.drag),
        "8 in penalty and score": _ratio(both.drag),
        "token by token": _ratio(token_by_token()),
        "expected, L = 1": _ratio(expected_drag(1)),
        "expected, L = 8": _ratio(expected_drag(LENGTH)),
    }
    tiny = worked_example(kl_weight=0.001)
    other_sign = worked_example(sign=1.0)
    expected = reward_gradient(THETA)
    return [
        Erratum(
            "the drag falls on sampling because attempts are long",
            "the factor 8 multiplies the KL but not the score, against eq. 3; |s| / |dW| of the drag hangs on where it is put,"
            " so one trajectory decides nothing; in expectation the ratio grows with the length, as the paper says",
            ratios,
        ),
        Erratum(
            "the KL drag holds sampling back (net -0.2848)",
            "the KL weight is silently 1; with the paper's 0.001 every net gradient is the push",
            {**_named("net at 0.001", tiny.net), **_named("push", tiny.push)},
        ),
        Erratum("d = log(policy / reference)", "the appendix computes -log: the drag changes sign", {
            "drag on s, -log": printed.drag.s, "drag on s, +log": other_sign.drag.s,
        }),
        Erratum(
            "reward pushes, KL drags",
            "on this trajectory both are negative for s; in expectation the reward's gradient is positive for all three",
            {"push on s here": printed.push.s, **_named("expected push", expected), "accuracy": expected_accuracy(THETA)},
        ),
    ]  # fmt: skip


def _ratio(drag: Logits) -> float:
    return abs(drag.s) / abs(drag.dW)


def _named(name: str, gradient: Logits) -> dict[str, float]:
    return {f"{name}, {logit}": value for logit, value in gradient._asdict().items()}
