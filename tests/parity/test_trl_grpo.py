"""Our GRPO against TRL's own loss of the same rollouts: the policy term and both KL estimators, with and without the ratio."""

import pytest
import torch
import trl
from trl import GRPOTrainer

from holdfast.training.rl.trainer import TRAINERS
from parity.conftest import ParityRow
from training.rl_runs import save_policy, saving, trained

PARTS = {"loss_k3": "without bias correction", "loss_k3_ratio": "with bias correction"}


@pytest.mark.parametrize("kl", PARTS)
@pytest.mark.parametrize("micro_batch", [None, 4])
def test_the_gradient_of_an_update(kl, micro_batch, tmp_path, monkeypatch, parity_row: ParityRow) -> None:
    """One update per batch of rollouts, where TRL's ``dapo`` divides by the same number of tokens."""
    gaps = []

    class Watched(TRAINERS[kl]):
        def _clip_grad_norm(self, model):
            """Instead of clipping: TRL's gradient of the same passes."""
            ours = {name: weight.grad.clone() for name, weight in model.named_parameters()}
            model.zero_grad()
            monkeypatch.setattr(self.args, "use_bias_correction_kl", kl == "loss_k3_ratio")
            monkeypatch.setattr(self, "loss_type", "dapo")
            for inputs in self._buffered_inputs:
                GRPOTrainer._compute_loss(self, model, inputs).backward()
            monkeypatch.setattr(self, "loss_type", "bnpo")
            for name, weight in model.named_parameters():
                torch.testing.assert_close(ours[name], weight.grad, rtol=1e-4, atol=1e-6, msg=name)
                gaps.append(float((ours[name] - weight.grad).abs().max()))
            assert max(float(gradient.abs().max()) for gradient in ours.values()) > 1e-2

    monkeypatch.setitem(TRAINERS, kl, Watched)
    how = {"steps": 3, "prompts_per_step": 4, "group": 4, "lr": 1e-2, "kl_weight": 0.3, "max_new_tokens": 10}
    trained(
        saving(save_policy(tmp_path / "policy"), tmp_path / "run", rl={**how, "kl": kl, "micro_batch": micro_batch})
    )
    assert gaps
    what = f"GRPO, `updates: 1`, `kl: {kl}` and `dapo` {PARTS[kl]}: gradient in every weight"
    parity_row("TRL", trl.__version__, what, max(gaps))
