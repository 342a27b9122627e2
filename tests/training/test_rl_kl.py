"""Which divergence each setting of ``rl.kl`` pulls on, by enumeration; and that an update is divided by its own tokens."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

from holdfast.training.rl.trainer import TRAINERS, TokenMeanTrainer, k3, k3_times_ratio, kl_to_go
from training.rl_runs import save_policy, saving, trained

VOCAB = 6


def logits(seed: int) -> Tensor:
    return torch.randn(VOCAB, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def kl(p: Tensor, q: Tensor) -> Tensor:
    return (p.exp() * (p - q)).sum()


def policy_to_reference(logp: Tensor, logp_ref: Tensor) -> Tensor:
    return kl(logp, logp_ref)


def reference_to_policy(logp: Tensor, logp_ref: Tensor) -> Tensor:
    return kl(logp_ref, logp)


Divergence = Callable[[Tensor, Tensor], Tensor]


@pytest.mark.parametrize(
    ("charge", "divergence"),
    [
        (k3, reference_to_policy),
        (lambda logp, ref: k3_times_ratio(logp, ref, logp.detach()), policy_to_reference),
    ],
    ids=["loss_k3", "loss_k3_ratio"],
)
def test_the_expected_gradient_in_the_loss(charge: Divergence, divergence: Divergence) -> None:
    """Sum over all tokens of P(token) * gradient of what is charged for it."""
    theta, logp_ref = logits(0).requires_grad_(), logits(1).log_softmax(-1)
    sampled = theta.detach().log_softmax(-1)
    assert (logp_ref - sampled).max() < 2.5  # beyond that verl's clamps cut k3's gradient off
    expected = (sampled.exp() * charge(theta.log_softmax(-1), logp_ref)).sum()
    (ours,) = torch.autograd.grad(expected, theta)
    (wanted,) = torch.autograd.grad(divergence(theta.log_softmax(-1), logp_ref), theta)
    (other,) = torch.autograd.grad(kl(logp_ref, theta.log_softmax(-1)) + kl(theta.log_softmax(-1), logp_ref), theta)
    torch.testing.assert_close(ours, wanted, rtol=1e-12, atol=1e-14)
    assert (ours - (other - wanted)).norm() > 0.1 * wanted.norm()  # and not that of the opposite direction


def test_the_ratio_corrects_for_tokens_of_an_older_policy() -> None:
    theta, logp_ref, old = logits(0).requires_grad_(), logits(1).log_softmax(-1), logits(2).log_softmax(-1)
    expected = (old.exp() * k3_times_ratio(theta.log_softmax(-1), logp_ref, old)).sum()
    assert expected.item() == pytest.approx(kl(theta.log_softmax(-1), logp_ref).item(), rel=1e-12)
    (ours,) = torch.autograd.grad(expected, theta)
    (wanted,) = torch.autograd.grad(kl(theta.log_softmax(-1), logp_ref), theta)
    torch.testing.assert_close(ours, wanted, rtol=1e-12, atol=1e-14)


def test_the_expected_gradient_in_the_reward_is_of_whole_responses() -> None:
    """All responses of two tokens, the second one's distribution depending on the first: KL of the joint distributions."""
    random = torch.Generator().manual_seed(0)
    theta, ref = (torch.randn(1 + VOCAB, VOCAB, dtype=torch.float64, generator=random) for _ in range(2))
    theta.requires_grad_()
    logp, logp_ref = theta.log_softmax(-1), ref.log_softmax(-1)

    def of(table: Tensor, first: int, second: int) -> Tensor:
        return torch.stack([table[0, first], table[1 + first, second]])

    surrogate = joint_kl = torch.zeros((), dtype=torch.float64)
    for first, second in product(range(VOCAB), repeat=2):
        ours, reference = of(logp, first, second), of(logp_ref, first, second)
        charge = kl_to_go((ours - reference).detach()[None], torch.ones(1, 2))[0]
        surrogate = surrogate + ours.sum().exp().detach() * (charge * ours).sum()
        joint_kl = joint_kl + ours.sum().exp() * (ours - reference).sum()
    (found,) = torch.autograd.grad(surrogate, theta, retain_graph=True)
    (wanted,) = torch.autograd.grad(joint_kl, theta)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-14)


def by_hand(trainer: TokenMeanTrainer, model: torch.nn.Module, passes: list[dict[str, Tensor]]) -> Tensor:
    """The update's loss, from MATH §3, over one sum and one count. In the reward, the KL is part of the advantage."""
    total = num = torch.zeros(())
    for inputs in passes:
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        seen = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
        width = inputs["completion_ids"].shape[1]
        table = model(input_ids=ids, attention_mask=seen).logits[:, -width - 1 : -1].log_softmax(-1)
        logp = table.gather(2, inputs["completion_ids"][..., None]).squeeze(2)
        old = inputs.get("old_per_token_logps", logp.detach())
        ratio, advantage = (logp - old).exp(), inputs["advantages"]
        advantage = advantage if advantage.dim() == 2 else advantage[:, None]
        loss = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        x = inputs["ref_per_token_logps"] - logp
        clamped = (x.clamp(-20, 20).exp() - x.clamp(-20, 20) - 1).clamp(-10, 10)  # as verl
        estimates = {"loss_k3": clamped, "loss_k3_ratio": (x.exp() - x - 1) * ratio, "reward_k1": 0 * x}
        loss = loss + trainer.beta * estimates[trainer.name]
        mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        total, num = total + (loss * mask).sum(), num + mask.sum()
    return total / num


@pytest.mark.parametrize("kl", ["loss_k3", "loss_k3_ratio", "reward_k1"])
@pytest.mark.parametrize(("updates", "micro_batch"), [(1, None), (1, 4), (4, None), (2, 4)])
def test_every_update_is_divided_by_its_own_tokens(kl, updates, micro_batch, tmp_path, monkeypatch) -> None:
    checked, sizes = [], set()

    class Watched(TRAINERS[kl]):
        name = kl

        def _clip_grad_norm(self, model):
            num = self.args.gradient_accumulation_steps
            start = self.state.global_step % updates * num
            passes = self._buffered_inputs[start : start + num]
            names, parameters = zip(*model.named_parameters(), strict=True)
            wanted = torch.autograd.grad(by_hand(self, model, passes), parameters)
            for name, parameter, gradient in zip(names, parameters, wanted, strict=True):
                torch.testing.assert_close(parameter.grad, gradient, rtol=2e-4, atol=2e-6, msg=name)
            checked.append(sum(float(gradient.norm()) for gradient in wanted))
            sizes.add(int(sum(batch["completion_mask"].sum() for batch in passes)))
            return super()._clip_grad_norm(model)

    monkeypatch.setitem(TRAINERS, kl, Watched)
    steps = {
        "steps": 4,
        "prompts_per_step": 4,
        "group": 4,
        "lr": 1e-2,
        "kl_weight": 0.5,
        "kl": kl,
        "max_new_tokens": 10,
    }
    how = {**steps, "updates": updates, "micro_batch": micro_batch, "max_grad_norm": 1e9}
    trained(saving(save_policy(tmp_path / "policy"), tmp_path / "run", rl=how))
    assert len(checked) == 4
    assert min(checked) > 1e-3
    assert len(sizes) > 1  # the updates differ in tokens, or a wrong count would not be seen
