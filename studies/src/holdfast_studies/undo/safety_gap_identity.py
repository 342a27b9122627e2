"""Parts (a) and (b) of [000]'s theorem on a model's own parameters: identities on sums, which must hold exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from holdfast import objectives
from holdfast.heads import TokenStats
from holdfast.records import Role
from holdfast.tokens import TokenRow, pad

STEP = 1e-6  # of the descent that shows which way the difference points


class Identity(NamedTuple):
    """``target``: how far dL/dlogp of the two objectives lies apart on tokens that are not errors (part a).

    ``difference``: |g_SFT - g_mSFT - g_error| / |g_error| over all parameters (part b). ``error_gain``: how much a small
    descent step along that difference alone raises the error tokens' log-likelihood, per unit of step.
    """

    target: float
    difference: float
    error_gain: float
    num_parameters: int
    num_error_tokens: int


def gradient_identity(model: Any, rows: Sequence[TokenRow]) -> Identity:
    """The model should be in float64. Sums, not means: both objectives share one denominator (MATH §2)."""
    with norms_in_double(model):
        return _identity(model, rows)


@contextmanager
def norms_in_double(model: Any) -> Iterator[None]:
    """transformers' RMSNorm computes in float32 whatever the model's precision: seven digits are not an identity."""
    norms = [module for module in model.modules() if hasattr(module, "variance_epsilon")]

    def exact(hidden: Tensor, norm: Any) -> Tensor:
        scale = torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
        scaled: Tensor = norm.weight * (hidden * scale)
        return scaled

    for norm in norms:
        norm.forward = partial(exact, norm=norm)
    try:
        yield
    finally:
        for norm in norms:
            del norm.__dict__["forward"]


def _identity(model: Any, rows: Sequence[TokenRow]) -> Identity:
    assert not model.training
    stats, role = statistics_of(model, rows)
    parameters = [weight for weight in model.parameters() if weight.requires_grad]
    sft = objectives.sft(stats).sum()
    masked = objectives.masked_sft(stats, role=role).sum()
    errors = -stats.logp[role == Role.ERROR].sum()
    by_token = [torch.autograd.grad(loss, stats.logp, retain_graph=True)[0] for loss in (sft, masked)]
    target = (by_token[0] - by_token[1])[role != Role.ERROR].abs().max()
    difference = [a - b for a, b in zip(_gradient(sft, parameters), _gradient(masked, parameters), strict=True)]
    expected = _gradient(errors, parameters)
    residue = _norm([a - b for a, b in zip(difference, expected, strict=True)])
    return Identity(
        target=float(target),
        difference=residue / _norm(expected),
        error_gain=_gain(model, rows, parameters, difference),
        num_parameters=sum(part.numel() for part in expected),
        num_error_tokens=int((role == Role.ERROR).sum()),
    )


def statistics_of(model: Any, rows: Sequence[TokenRow]) -> tuple[TokenStats, Tensor]:
    """The statistics of every token that carries a target, and its role."""
    batch = pad(rows, 0, float_mask=model.config._attn_implementation == "eager").to(model.device)
    logits = model(**batch.model_inputs()).logits[:, :-1]
    every = torch.log_softmax(logits, -1).gather(-1, batch.ids[:, 1:, None]).squeeze(-1)
    is_target = batch.roles[:, 1:] != Role.PROMPT
    return TokenStats(every[is_target], logits.argmax(-1)[is_target]), batch.roles[:, 1:][is_target]


def _gradient(loss: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, parameters, retain_graph=True)


def _norm(parts: Sequence[Tensor]) -> float:
    return math.sqrt(sum(float(part.pow(2).sum()) for part in parts))


@torch.no_grad()
def _gain(model: Any, rows: Sequence[TokenRow], parameters: Sequence[Tensor], direction: Sequence[Tensor]) -> float:
    """Descend along the difference of the two gradients, look at the error tokens, and go back."""
    length = STEP / _norm(direction)

    def log_likelihood() -> float:
        stats, role = statistics_of(model, rows)
        return float(stats.logp[role == Role.ERROR].sum())

    def move(distance: float) -> None:
        for weight, part in zip(parameters, direction, strict=True):
            weight.add_(part, alpha=distance)

    before = log_likelihood()
    move(-length)
    after = log_likelihood()
    move(length)
    return (after - before) / STEP
