"""TRL's GRPOTrainer with the KL inside the reward, as the proofs of [004] have it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from holdfast.training.rl_checkpoints import SafeGrpoTrainer


class KlInRewardTrainer(SafeGrpoTrainer):
    """k1 in the reward: every token is charged for the divergence from itself to the end ([004] Thm 3.2, γ = 1).

    Its expected gradient is that of KL(policy || reference) over whole responses, visits to later states included (MATH
    §3). The charge is centred on the group's mean and, unlike the reward, not divided by the group's spread: the weight
    would otherwise mean something else in every group.
    """

    beta: float

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        mask = output["completion_mask"] * output.get("tool_mask", 1)
        charge = kl_to_go(self._logps(output) - output["ref_per_token_logps"], mask)
        baseline = group_mean(charge[:, 0], self.num_generations)
        output["advantages"] = output["advantages"][:, None] - self.beta * (charge - baseline[:, None])
        return output

    def _logps(self, output: dict[str, Any]) -> Tensor:
        """Of the policy that wrote the rollouts; TRL computes them itself only where it needs them for its ratio."""
        known: Tensor | None = output.get("old_per_token_logps")
        if known is not None:
            return known
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], 1)
        mask = torch.cat([output["prompt_mask"], output["completion_mask"]], 1)
        with torch.no_grad():
            logps, _, _ = self._get_per_token_logps_and_entropies(
                self.model, ids, mask, output["completion_ids"].shape[1], self.args.per_device_train_batch_size
            )
        result: Tensor = logps
        return result

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """The KL is in the advantages already: none in the loss."""
        weight, self.beta = self.beta, 0.0
        try:
            loss: Tensor = super()._compute_loss(model, inputs)
        finally:
            self.beta = weight
        return loss


def kl_to_go(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """Sum of log(policy / reference) from each token to the end of its response."""
    return (log_ratio * mask).flip(1).cumsum(1).flip(1)


def group_mean(values: Tensor, group: int) -> Tensor:
    """Each value replaced by its group's mean; groups lie side by side."""
    return values.view(-1, group).mean(1).repeat_interleave(group)
