"""dft: numbers worked by hand, and the stop-gradient."""

from math import log

import pytest
import torch

from holdfast import objectives
from holdfast.heads import TokenStats
from objectives.objective_cases import by_hand, random_stats


def test_by_hand() -> None:
    """p = 1/4: loss 1/4 log 4 = 0.3466. With p held the slope in log p is -p = -1/4; without it, it would be
    -(p log p)' = -p (1 + log p) = 0.0966.
    """
    stats = by_hand(logp=-log(4))
    loss = objectives.dft(stats)
    assert loss.item() == pytest.approx(0.25 * log(4), abs=1e-15)
    assert torch.autograd.grad(loss.sum(), stats.logp)[0].item() == pytest.approx(-0.25, abs=1e-15)


def test_its_gradient_is_that_of_minus_p() -> None:
    """-sg(p) grad log p = -grad p, so -p is the objective whose gradient dft is; that one passes gradcheck."""
    logp = random_stats().logp.detach().requires_grad_()
    (found,) = torch.autograd.grad(objectives.dft(TokenStats(logp=logp, top=logp.long())).sum(), logp)
    (expected,) = torch.autograd.grad(-logp.exp().sum(), logp)
    torch.testing.assert_close(found, expected, rtol=1e-15, atol=0)
    assert torch.autograd.gradcheck(lambda x: -x.exp(), (logp,))


def test_limits() -> None:
    """A certain token costs nothing and teaches nothing more than sft's slope; an impossible one has no slope."""
    certain, impossible = by_hand(logp=0.0), by_hand(logp=-800.0)
    assert objectives.dft(certain).item() == 0
    assert torch.autograd.grad(objectives.dft(certain).sum(), certain.logp)[0].item() == -1
    assert torch.autograd.grad(objectives.dft(impossible).sum(), impossible.logp)[0].item() == 0
