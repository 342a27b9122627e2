"""What is ours on TRL's GRPOTrainer: whole checkpoints, the mean over an update's tokens, the KL, and the log of its steps.

TRL has changed how it averages and how it charges the KL between versions (``use_bias_correction_kl`` became true, ``dapo``
divides by another count), so neither is left to its defaults: TRL gives the clipped policy loss of a pass, averaged over its
tokens (``bnpo``), and the rest is here."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback
from trl import GRPOTrainer

from holdfast.records.rl_steps import TRAINER_FIGURES, seconds_name
from holdfast.training.checkpoints.folders import save_checkpoint, step_of
from holdfast.training.run_directory import RunDirectory, StepLog


class SafeGrpoTrainer(GRPOTrainer):
    """GRPOTrainer that a kill or a second Ctrl-C while saving cannot leave with half a checkpoint."""

    _saves_into: str | None = None

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        run, save = RunDirectory(self.args.output_dir), super()._save_checkpoint

        def write(folder: Path) -> None:
            self._saves_into = str(folder)
            try:
                save(model, trial)
            finally:
                self._saves_into = None

        StepLog(run.steps).sync()
        save_checkpoint(run.checkpoints, self.state.global_step, write, keep=None)

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing after the last step: a run killed between its last checkpoint and its model would go one step too far."""
        if self.state.global_step < self.state.max_steps:
            super()._run_epoch(*args, **kwargs)

    def _get_output_dir(self, trial: Any) -> str:
        """Where Trainer makes the folder of a checkpoint."""
        folder: str = self._saves_into or super()._get_output_dir(trial)
        return folder


def inner_folder(checkpoint: Path) -> Path:
    """What Trainer resumes from: it gives the folder of a checkpoint a name of its own."""
    return checkpoint / f"checkpoint-{step_of(checkpoint)}"


def k3(logp: Tensor, logp_ref: Tensor) -> Tensor:
    """verl's ``low_var_kl`` of sampled tokens, clamps included: the expected gradient is that of KL(reference || policy).

    MATH §3. A token that the clamps reach has no gradient.
    """
    x = (logp_ref - logp).clamp(-20, 20)
    return (x.exp() - x - 1).clamp(-10, 10)


def k3_times_ratio(logp: Tensor, logp_ref: Tensor, logp_old: Tensor) -> Tensor:
    """TRL's ``use_bias_correction_kl`` (DeepSeek-V3.2): the expected gradient is that of KL(policy || reference).

    ``logp_old`` is of the policy that sampled. The ratio is differentiated too: it is 1 in the first update of a batch, but
    its gradient is not 0. In later updates it also corrects for the tokens having been drawn from an older policy.
    """
    x = logp_ref - logp
    return (x.exp() - x - 1) * (logp - logp_old).exp()


class TokenMeanTrainer(SafeGrpoTrainer):
    """GRPO whose loss is the sum over an update's tokens divided by their number, over all passes and processes.

    That is verl's ``token-mean``. TRL's ``dapo`` divides by the mean number over the updates of a batch of rollouts, so that
    with ``updates > 1`` an update with longer responses counts for more.
    """

    beta: float
    _logps_of_pass: Tensor

    def kl_of_tokens(self, logp: Tensor, inputs: dict[str, Any]) -> Tensor | None:
        """What the loss charges for each token; None: nothing."""
        return None

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """One pass of an update, with the number of tokens of the whole update."""
        inputs = super()._prepare_inputs(generation_batch)
        if "update_tokens" not in inputs:
            passes, num = self._buffered_inputs, self.args.gradient_accumulation_steps
            index = next(number for number, batch in enumerate(passes) if batch is inputs)
            update = passes[index - index % num :][:num]
            tokens = self.accelerator.reduce(torch.stack([_mask(batch).sum() for batch in update]).sum(), "sum")
            for batch in update:
                batch["update_tokens"] = tokens
        return inputs

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        self._logps_of_pass = result[0]
        return result

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """TRL's policy loss and our KL, both of them means over the pass; weighed by the pass's part of the update."""
        weight, self.beta = self.beta, 0.0  # no KL of TRL's
        try:
            loss: Tensor = super()._compute_loss(model, inputs)
        finally:
            self.beta = weight
        mask, num_passes = _mask(inputs), self.current_gradient_accumulation_steps
        per_token = self.kl_of_tokens(self._logps_of_pass, inputs) if weight else None
        if per_token is not None:
            kl = (per_token * mask).sum() / mask.sum().clamp(min=1)
            self._metrics["train"]["kl"].append(self.accelerator.gather(kl.detach()).mean().item())
            loss = loss + weight * kl / num_passes
        part = mask.sum() * self.accelerator.num_processes / inputs["update_tokens"].clamp(min=1)
        of_update: Tensor = loss * num_passes * part
        return of_update


class K3Trainer(TokenMeanTrainer):
    """The trainer of ``kl: loss_k3``."""

    def kl_of_tokens(self, logp: Tensor, inputs: dict[str, Any]) -> Tensor:
        """verl's ``low_var_kl``, token by token."""
        return k3(logp, inputs["ref_per_token_logps"])


class K3RatioTrainer(TokenMeanTrainer):
    """The trainer of ``kl: loss_k3_ratio``."""

    def kl_of_tokens(self, logp: Tensor, inputs: dict[str, Any]) -> Tensor:
        """TRL leaves the older log-probabilities out where they are those of this pass."""
        old = inputs.get("old_per_token_logps")
        return k3_times_ratio(logp, inputs["ref_per_token_logps"], logp.detach() if old is None else old)


class KlInRewardTrainer(TokenMeanTrainer):
    """k1 in the reward: every token is charged for the divergence from itself to the end ([004] Thm 3.2, γ = 1).

    Its expected gradient is that of KL(policy || reference) over whole responses, visits to later states included (MATH
    §3). The charge is centred on the group's mean and, unlike the reward, not divided by the group's spread: the weight
    would otherwise mean something else in every group.
    """

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.beta:
            charge = kl_to_go(self._logps(output) - output["ref_per_token_logps"], _mask(output))
            baseline = group_mean(charge[:, 0], self.num_generations)
            output["advantages"] = output["advantages"][:, None] - self.beta * (charge - baseline[:, None])
        return output

    def _logps(self, output: dict[str, Any]) -> Tensor:
        """Log-probabilities under the policy that wrote the rollouts, which TRL computes only for its ratio."""
        known: Tensor | None = output.get("old_per_token_logps")
        if known is not None:
            return known
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], 1)
        mask = torch.cat([output["prompt_mask"], output["completion_mask"]], 1)
        with torch.no_grad():
            result: tuple[Tensor, ...] = self._get_per_token_logps_and_entropies(
                self.model, ids, mask, output["completion_ids"].shape[1], self.args.per_device_train_batch_size
            )
        return result[0]


TRAINERS: dict[str, type[TokenMeanTrainer]] = {
    "loss_k3": K3Trainer,
    "loss_k3_ratio": K3RatioTrainer,
    "reward_k1": KlInRewardTrainer,
}
"""By the setting ``rl.kl``."""


def _mask(inputs: dict[str, Any]) -> Tensor:
    """1 on the tokens that the policy wrote itself, 0 on padding and on what an environment put there."""
    mask: Tensor = inputs["completion_mask"] * inputs.get("tool_mask", 1)
    return mask


def kl_to_go(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """Sum of log(policy / reference) from each token to the end of its response."""
    return (log_ratio * mask).flip(1).cumsum(1).flip(1)


def group_mean(values: Tensor, group: int) -> Tensor:
    """Each value replaced by its group's mean; groups lie side by side."""
    return values.view(-1, group).mean(1).repeat_interleave(group)


TIMED = {"rollout": "_generate", "reward": "_calculate_rewards", "scoring": "_generate_and_score_completions"}
"""Parts of a step, and the methods of TRL's trainer that they are."""


@dataclass
class Watch:
    """Carries a batch's figures from the sampler and the reward to the log, and the seconds that each part of a step took."""

    figures: dict[str, float] = field(default_factory=dict)
    seconds: defaultdict[str, float] = field(
        default_factory=lambda: defaultdict(float)
    )  # since the last row of the log

    def time(self, trainer: Any) -> None:
        """Time the parts of a step. Scoring holds the rewards and the log-probabilities under policy and reference."""
        for name, method in TIMED.items():
            setattr(trainer, method, self._timed(name, getattr(trainer, method)))

    def _timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - started

        return timed

    def row(self, num_steps: int) -> dict[str, float]:
        """Mean seconds of a step by part since the last call."""
        spent, self.seconds = self.seconds, defaultdict(float)
        spent["scoring"] -= spent["rollout"]  # it is the whole of what comes before the update
        return {seconds_name(name): round(spent[name] / num_steps, 3) for name in TIMED}


class RlLog(TrainerCallback):
    """steps.jsonl: TRL's figures, the observer's, and where the time went."""

    def __init__(self, log: StepLog, watch: Watch) -> None:
        self.log, self.watch, self.last_step = log, watch, 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Steps are counted from here: a resumed run does not begin at 0."""
        self.last_step = state.global_step

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """One row per logged step, from one process of several."""
        if not logs or "reward" not in logs or not state.is_world_process_zero:
            return
        row = {name: logs[name] for name in TRAINER_FIGURES if logs.get(name) is not None}
        times = self.watch.row(max(1, state.global_step - self.last_step))
        self.last_step = state.global_step
        self.log.append({"step": state.global_step, **row, **self.watch.figures, **times})
