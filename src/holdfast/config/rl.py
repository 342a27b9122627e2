"""What an RL run reads: a model, prompts with answers, and how to step (GRPO on TRL)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from holdfast.config.base import Settings, UserPath
from holdfast.config.training import LoraSettings, ModelSettings, Precision


class GrpoSettings(Settings):
    """Group-relative policy optimisation ([004] Table 7 names its values; each field says which)."""

    steps: int | None = Field(default=None, gt=0)  # optimizer steps; default: ``epochs`` passes over the prompts
    epochs: float = Field(default=1.0, gt=0)
    prompts_per_step: int = Field(default=32, gt=0)  # over all processes; "train batch size"
    group: int = Field(default=8, gt=1)  # "rollouts per query"
    updates: int = Field(default=1, gt=0)  # optimizer steps per batch of rollouts: train batch / "PPO mini-batch"
    micro_batch: int | None = Field(default=None, gt=0)  # rollouts per forward of a process; default: all it has
    lr: float = Field(default=1e-6, gt=0)
    scheduler: str = "constant"
    warmup_steps: int = Field(default=0, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    kl_weight: float = Field(default=0.001, ge=0)  # "KL loss coefficient"
    # loss_k3: verl's "low_var_kl", the gradient of KL(reference || policy). loss_k3_ratio: TRL's bias correction, that of
    # KL(policy || reference). reward_k1: the latter over whole responses, as the paper's proofs have it.
    kl: Literal["loss_k3", "loss_k3_ratio", "reward_k1"] = "loss_k3"
    clip: float = Field(default=0.2, gt=0)
    temperature: float = Field(default=1.0, gt=0)
    max_prompt_tokens: int = Field(default=1024, gt=0)
    max_new_tokens: int = Field(default=256, gt=0)
    sampler: Literal["own", "trl", "vllm"] = "own"
    precision: Precision = "fp32"
    gradient_checkpointing: bool = False
    seed: int = Field(default=0, ge=0, lt=2**32)
    log_every: int = Field(default=1, gt=0)
    save_every: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _divides(self) -> GrpoSettings:
        self.passes()
        return self

    def passes(self, processes: int = 1) -> tuple[int, int]:
        """Rollouts of one pass on one process, and how many passes an update has there.

        ``prompts_per_step`` is the number over all processes. A group stays on one process: its mean is taken there.
        """
        rollouts = self.prompts_per_step * self.group
        if self.prompts_per_step % processes:
            raise ValueError(f"{self.prompts_per_step} prompts cannot be dealt to {processes} processes evenly")
        own, uneven = divmod(rollouts, self.updates * processes)
        rows = self.micro_batch or own
        if uneven or own % rows:
            among = f"{self.updates} updates" + (f" on {processes} processes" if processes > 1 else "")
            raise ValueError(f"{rollouts} rollouts cannot be dealt to {among} in passes of {self.micro_batch or 'all'}")
        return rows, own // rows


class RlConfig(Settings):
    """A whole RL run. ``task`` says where prompts come from and what is rewarded.

    ``answer_matches``: ``data`` is a file with ``prompt`` and ``answer`` columns; a response whose last answer is that one
    gets 1, any other 0. Plugins add further tasks, with settings of their own in ``task_options``.
    """

    run: UserPath
    model: ModelSettings
    rl: GrpoSettings
    task: str = "answer_matches"
    task_options: dict[str, Any] = Field(default_factory=dict)
    reward: str | None = None  # a name in holdfast.judging.REWARDS, such as judge:outcome; default: the task's own
    data: UserPath | None = None
    extract: str = "number"  # how answers are found in a response: number, boxed, choice, code
    lora: LoraSettings | None = None
    report_to: tuple[str, ...] = ()
