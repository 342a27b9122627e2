"""kl_sft and distill: numbers worked by hand, gradcheck, the limits."""

from math import log

import pytest
import torch

from holdfast import objectives
from holdfast.heads import token_stats
from objectives.objective_cases import by_hand, random_head, random_stats


def test_kl_sft_by_hand() -> None:
    """p = 1/4, kl = 2, lambda 3/2: log 4 + 3; slopes -1 and 3/2."""
    stats = by_hand(logp=-log(4), kl=2.0)
    loss = objectives.kl_sft(stats, kl_weight=1.5)
    assert loss.item() == log(4) + 3
    slopes = torch.autograd.grad(loss.sum(), (stats.logp, stats.kl))
    assert [slope.item() for slope in slopes] == [-1, 1.5]


def test_distill_by_hand() -> None:
    """Policy (1/2, 1/2), anchor (3/4, 1/4): KL(anchor || policy) = 3/4 log 3/2 + 1/4 log 1/2 = 0.1308.

    Its gradient in the policy's logits is p - q = (-1/4, 1/4), whatever the target.
    """
    hidden = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    ref_hidden = torch.tensor([[log(3.0), 0.0]] * 2, dtype=torch.float64)
    eye = torch.eye(2, dtype=torch.float64)
    stats = token_stats(hidden, eye, torch.tensor([0, 1]), ref_hidden=ref_hidden, ref_weight=eye)
    loss = objectives.distill(stats)
    assert loss.tolist() == pytest.approx([0.75 * log(1.5) + 0.25 * log(0.5)] * 2, abs=1e-15)
    (grad,) = torch.autograd.grad(loss.sum(), hidden)
    torch.testing.assert_close(grad, torch.tensor([[-0.25, 0.25]] * 2, dtype=torch.float64), rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", ["kl_sft", "distill"])
def test_gradcheck_through_the_head(name: str) -> None:
    hidden, weight, ref_hidden, ref_weight, targets = random_head(4)

    def loss(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        stats = token_stats(hidden, weight, targets, ref_hidden=ref_hidden, ref_weight=ref_weight)
        return objectives.REGISTRY[name](stats)

    assert torch.autograd.gradcheck(loss, (hidden, weight))


def test_limits() -> None:
    """Policy = anchor: distill is 0 and kl_sft is sft; so is kl_sft at weight 0."""
    equal, apart = random_stats(equal=True), random_stats()
    assert objectives.distill(equal).abs().max() == 0
    assert torch.equal(objectives.kl_sft(equal, kl_weight=7.0), objectives.sft(equal))
    assert torch.equal(objectives.kl_sft(apart, kl_weight=0.0), objectives.sft(apart))
    assert (objectives.distill(apart) > 0).all()
