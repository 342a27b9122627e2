"""csft: numbers worked by hand, the objective whose gradient it is, the limits, the schedule."""

from dataclasses import replace
from math import log

import pytest
import torch
from torch.nn.functional import logsigmoid

from holdfast import objectives
from holdfast.config import InputError
from holdfast.objectives import QI_2024, BetaSchedule
from objectives.objective_cases import POSITION, by_hand, random_stats


def test_by_hand() -> None:
    """p = 1/2, anchor 1/8: logp - logp_ref = log 4, so w = 2 / (1 + 4^beta).

    First token, beta 1/2: w = 2/3, loss 2/3 log 2. Tokens 2 to 5, beta 2: w = 2/17. Then, beta .1: w = 2 / (1 + 4^.1).
    """
    stats = by_hand(logp=[-log(2)] * 7, logp_ref=[-log(8)] * 7)
    weights = [2 / 3, *[2 / 17] * 4, *[2 / (1 + 4**0.1)] * 2]
    loss = objectives.csft(stats, position=torch.arange(7))
    assert loss.tolist() == pytest.approx([w * log(2) for w in weights], abs=1e-15)
    slopes = torch.autograd.grad(loss.sum(), stats.logp)[0].tolist()
    assert slopes == pytest.approx([-w for w in weights], abs=1e-15)
    shown = objectives.csft_weight(stats, position=torch.arange(7))
    assert shown.tolist() == pytest.approx(weights, abs=1e-15)
    assert not shown.requires_grad


def test_floor_by_hand() -> None:
    """The policy is e^20 times surer than the anchor at beta 2: w = 2 sigmoid(-40) = 8.5e-18, floored at 1e-3."""
    stats = by_hand(logp=[0.0], logp_ref=[-20.0])
    position = torch.tensor([1])
    assert objectives.csft_weight(stats, position=position).item() == pytest.approx(8.497e-18, rel=1e-3)
    assert objectives.csft_weight(stats, position=position, floor=1e-3).item() == 1e-3
    unsure = by_hand(logp=[-2.0], logp_ref=[-1.0])
    for floor in (0.0, 1e-3):
        weight = objectives.csft_weight(unsure, position=position, floor=floor)
        assert weight.item() == pytest.approx(2 / (1 + torch.e**-2))


@pytest.mark.parametrize("beta", [QI_2024, BetaSchedule(1.0, 3.0, 0.01, 3), 0.7])
def test_the_objective_whose_gradient_it_is(beta: BetaSchedule | float) -> None:
    """-(2 / beta_t) logsigmoid(beta_t (logp - logp_ref)) has csft's gradient, and passes gradcheck itself."""
    stats = random_stats()
    logp = stats.logp.detach().requires_grad_()
    beta_t = beta(POSITION, torch.float64) if callable(beta) else torch.full_like(logp, beta)

    def repaired(logp: torch.Tensor) -> torch.Tensor:
        return -(2 / beta_t) * logsigmoid(beta_t * (logp - stats.logp_ref))

    loss = objectives.csft(replace(stats, logp=logp), position=POSITION, beta=beta)
    (found,) = torch.autograd.grad(loss.sum(), logp)
    (expected,) = torch.autograd.grad(repaired(logp).sum(), logp)
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)
    assert torch.autograd.gradcheck(repaired, (logp,))


def test_policy_equal_to_anchor_is_sft_exactly() -> None:
    for dtype in (torch.float32, torch.float64):
        stats = random_stats(equal=True, dtype=dtype)
        assert torch.equal(objectives.csft(stats, position=POSITION), objectives.sft(stats))


def test_beta_to_zero_is_sft_and_beta_to_infinity_switches() -> None:
    stats = random_stats()
    torch.testing.assert_close(
        objectives.csft(stats, position=POSITION, beta=1e-12), objectives.sft(stats), rtol=1e-11, atol=0
    )
    weight = objectives.csft_weight(stats, position=POSITION, beta=1e12)
    assert torch.equal(weight, torch.where(stats.logp > stats.logp_ref, 0.0, 2.0).double())


def test_schedule_restarts_with_the_turn_and_can_come_from_yaml() -> None:
    position = torch.tensor([0, 1, 4, 5, 90, 0, 1])
    assert QI_2024(position, torch.float64).tolist() == [0.5, 2.0, 2.0, 0.1, 0.1, 0.5, 2.0]
    stats = random_stats(7)
    written = {"first": 0.5, "early": 2.0, "late": 0.1, "num_early": 5}
    expected = objectives.csft(stats, position=position)
    assert torch.equal(objectives.csft(stats, position=position, beta=written), expected)
    assert torch.equal(objectives.csft(stats, position=position, beta={}), expected)
    with pytest.raises(InputError, match="beta: no 'fist'; did you mean 'first'"):
        objectives.csft(stats, position=position, beta={"fist": 1.0})


def test_without_an_anchor_it_says_so() -> None:
    with pytest.raises(InputError, match="'logp_ref' is missing: it needs an anchor"):
        objectives.csft(by_hand(logp=-1.0), position=torch.tensor([0]))
