"""pa and csft_pa: numbers worked by hand, gradcheck, the limits, the options."""

from dataclasses import replace
from math import log, sqrt

import pytest
import torch

from holdfast import objectives
from holdfast.config import InputError
from holdfast.heads import token_stats
from objectives.objective_cases import POSITION, by_hand, random_head, random_stats


def test_by_hand() -> None:
    """kl = 2, delta = -(log 3) / 2: z = -log 3, loss -log sigmoid(-log 3) = log 4.

    Slopes, sigmoid(-z) = 3/4: in kl -3/4 delta = 3/8 log 3; in delta -3/4 kl = -3/2.
    """
    stats = by_hand(logp=-1.0, kl=2.0, delta=-log(3) / 2)
    loss = objectives.pa(stats)
    assert loss.item() == pytest.approx(log(4), abs=1e-15)
    in_kl, in_delta = torch.autograd.grad(loss.sum(), (stats.kl, stats.delta))
    assert in_kl.item() == pytest.approx(3 / 8 * log(3), abs=1e-15)
    assert in_delta.item() == pytest.approx(-3 / 2, abs=1e-15)


def test_options_by_hand() -> None:
    """The same token. Detached: equal value, no slope in kl. Clipped at 1, or kl ignored: z = -log sqrt 3."""
    stats = by_hand(logp=-1.0, kl=2.0, delta=-log(3) / 2)
    detached = objectives.pa(stats, kl="detach")
    assert detached.item() == pytest.approx(log(4), abs=1e-15)
    in_kl, in_delta = torch.autograd.grad(detached.sum(), (stats.kl, stats.delta), allow_unused=True)
    assert in_kl is None
    assert in_delta.item() == pytest.approx(-3 / 2, abs=1e-15)
    for options in ({"kl_clip": 1.0}, {"kl": "ignore"}, {"kl": "detach", "kl_clip": 1.0}):
        assert objectives.pa(stats, **options).item() == pytest.approx(log(1 + sqrt(3)), abs=1e-15)
    assert objectives.pa(stats, kl_clip=5.0).item() == pytest.approx(log(4), abs=1e-15)
    assert objectives.pa(replace(stats, kl=None), kl="ignore").item() == pytest.approx(log(1 + sqrt(3)), abs=1e-15)


def test_csft_pa_by_hand() -> None:
    """First token, p = 1/2, anchor 1/8: csft gives 2/3 log 2; pa as above log 4; delta_epoch 0.3."""
    stats = by_hand(logp=-log(2), logp_ref=-log(8), kl=2.0, delta=-log(3) / 2)
    loss = objectives.csft_pa(stats, position=torch.tensor([0]), pa_weight=0.3)
    assert loss.item() == pytest.approx(2 / 3 * log(2) + 0.3 * log(4), abs=1e-15)


@pytest.mark.parametrize("option", [{"beta": {"early": 3.0}}, {"floor": 0.9}, {"kl": "ignore"}, {"kl_clip": 0.1}])
def test_csft_pa_hands_each_option_on(option: dict[str, object]) -> None:
    stats = random_stats()
    found = objectives.csft_pa(stats, position=POSITION, pa_weight=0.5, **option)
    weighing, pulling = ({}, option) if "kl" in next(iter(option)) else (option, {})
    expected = objectives.csft(stats, position=POSITION, **weighing) + 0.5 * objectives.pa(stats, **pulling)
    assert torch.equal(found, expected)
    assert not torch.equal(found, objectives.csft_pa(stats, position=POSITION, pa_weight=0.5))


def test_delta_epoch_by_hand() -> None:
    """eq. 7: 0.1 at the start, 0.3 at the end, 0.14 a fifth of the way."""
    assert [objectives.pa_weight_at(epoch, 25) for epoch in (0, 5, 25)] == pytest.approx([0.1, 0.14, 0.3])


@pytest.mark.parametrize("options", [{}, {"kl": "detach"}, {"kl": "ignore"}, {"kl_clip": 0.3}])
def test_gradcheck(options: dict[str, object]) -> None:
    stats = random_stats()
    kl, delta = (x.detach().requires_grad_() for x in (stats.kl, stats.delta))
    held = kl.detach().clone()

    def loss(kl: torch.Tensor, delta: torch.Tensor) -> torch.Tensor:
        kl = held if options.get("kl") == "detach" else kl
        return objectives.pa(replace(stats, kl=kl, delta=delta), **options)

    assert torch.autograd.gradcheck(loss, (kl, delta))


def test_far_below_it_stays_linear_and_its_slope_exact() -> None:
    """z = -1000: the loss is 1000, not infinity; at z = -30 the slope still sees 1 - e^-30."""
    far = by_hand(logp=-1.0, kl=100.0, delta=-10.0)
    assert objectives.pa(far).item() == 1000
    near = by_hand(logp=-1.0, kl=30.0, delta=-1.0)
    assert objectives.pa(near).item() == pytest.approx(30 + torch.e**-30, rel=1e-16)


def test_policy_equal_to_anchor() -> None:
    """pa is log 2 without a gradient, and csft_pa has sft's gradient, to the bit."""
    hidden, weight, _, _, targets = random_head(dtype=torch.float32)
    anchor = {"ref_hidden": hidden.detach().clone(), "ref_weight": weight.detach().clone()}

    def grads(name: str, **options: object) -> tuple[torch.Tensor, ...]:
        stats = token_stats(hidden, weight, targets, **anchor)
        loss = objectives.REGISTRY[name](stats, **options)
        if name == "pa":
            torch.testing.assert_close(loss, torch.full_like(loss, log(2)))
            assert not objectives.pa_active(stats).any()
        return torch.autograd.grad(loss.sum(), (hidden, weight))

    assert all(grad.abs().max() == 0 for grad in grads("pa"))
    for one, other in zip(grads("csft_pa", position=POSITION), grads("sft"), strict=True):
        assert torch.equal(one, other)


def test_inactive_tokens_have_no_gradient_and_others_do() -> None:
    hidden, weight, ref_hidden, ref_weight, targets = random_head()
    stats = token_stats(hidden, weight, targets, ref_hidden=ref_hidden, ref_weight=ref_weight)
    active = objectives.pa_active(stats)
    assert 0 < active.sum() < len(active)
    loss = objectives.pa(stats)
    assert torch.equal(loss[~active], torch.full_like(loss[~active], log(2)))
    (grad,) = torch.autograd.grad(loss.sum(), hidden)
    assert grad[~active].abs().max() == 0
    assert (grad[active].abs().amax(-1) > 0).all()


def test_csft_pa_without_weight_is_csft() -> None:
    stats = random_stats()
    found = objectives.csft_pa(stats, position=POSITION, pa_weight=0.0)
    assert torch.equal(found, objectives.csft(stats, position=POSITION))


def test_wrong_input_is_said_in_one_line() -> None:
    stats = by_hand(logp=-1.0, kl=2.0, delta=-1.0)
    with pytest.raises(InputError, match="kl: unknown 'detatch'; did you mean 'detach'"):
        objectives.pa(stats, kl="detatch")
    with pytest.raises(InputError, match="'kl' is missing: it needs the anchor's hidden states or logits"):
        objectives.pa(replace(stats, kl=None))
