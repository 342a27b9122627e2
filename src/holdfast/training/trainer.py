"""transformers.Trainer with streams, anchors and checkpoints that survive: only what it has no hook for is overridden."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holdfast.config import InputError
from holdfast.config.training import TrainingSettings
from holdfast.training.anchors import AdapterOffAnchor, ModelAnchor
from holdfast.training.budget import DriftBudgets
from holdfast.training.checkpoints.durable import load_tree
from holdfast.training.checkpoints.state import load_rng, load_sharded, load_state, save_state
from holdfast.training.collate import Collator, MicroBatch, StreamRow
from holdfast.training.loss import StepLoss
from holdfast.training.monitor import StepMonitor
from holdfast.training.passes import PassRoom, least_worth
from holdfast.training.plan import PlanSampler, StepPlan
from holdfast.training.processes import Say, SayWhatIsSharded, refuse_zero3, shard_on_cpu_too
from holdfast.training.run_directory import RunDirectory
from holdfast.training.step_rule import Passes, StepRule

DescribeRows = Callable[[Sequence[int]], str]


class _MoveBudgets(TrainerCallback):
    """Takes steps of the size that the budgets allow; moves every lambda after a step, before it is logged or saved."""

    def __init__(self, budgets: DriftBudgets, accelerator: Accelerator) -> None:
        self.budgets, self.accelerator = budgets, accelerator
        self.rates: list[float] = []

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Shorten this step as the budgets ask. The schedule is left alone."""
        groups = given["optimizer"].param_groups
        self.budgets.last_step_size = self.budgets.step_size()
        self.rates = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] *= self.budgets.last_step_size

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Restore the learning rates."""
        for group, rate in zip(given["optimizer"].param_groups, self.rates, strict=True):
            group["lr"] = rate

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Move every lambda. Every process takes part."""
        self.budgets.step(self.accelerator, share_done=state.global_step / state.max_steps)


class _LogLastStep(TrainerCallback):
    """Logs the last step also where ``log_every`` does not divide it: the model card shows its figures."""

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Trainer asks after every step whether to log it."""
        control.should_log |= state.global_step >= state.max_steps


class StreamTrainer(Trainer):
    """Steps through a StepPlan. One Trainer "epoch" is the whole run, so that a step depends on its number only."""

    def __init__(
        self,
        model: Any,
        args: TrainingArguments,
        *,
        rows: Sequence[StreamRow],
        plan: StepPlan,
        collator: Collator,
        step_loss: StepLoss,
        settings: TrainingSettings,
        run: RunDirectory,
        describe_rows: DescribeRows,
        say: Say,
        step_rule: StepRule | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(model, args, train_dataset=rows, **kwargs)
        self.collator = collator  # Trainer's own wants dictionaries; only our loader calls it
        self.loss_is_scaled_for_ga = True  # we divide by the counts of the whole global batch
        self.plan, self.step_loss, self.monitor = plan, step_loss, StepMonitor(step_loss, run, args.device)
        self.settings, self.run, self.describe_rows, self.say = settings, run, describe_rows, say
        self.unchecked: list[tuple[Tensor, tuple[int, ...]]] = []  # losses of this step, and their rows
        self.passes, self.is_counted = None if step_rule is None else Passes(step_rule), True
        if self.passes and (self.accelerator.num_processes > 1 or args.fp16 or not args.max_grad_norm):
            raise InputError("a step rule takes one process, fp32 or bf16, and training.max_grad_norm above 0")
        if self.is_fsdp_enabled and isinstance(step_loss.anchor, ModelAnchor | AdapterOffAnchor):
            self.collator = replace(collator, always_anchor=True)
            if isinstance(step_loss.anchor, ModelAnchor):
                # Sharded like the policy: a whole second copy on every device would defeat the purpose.
                step_loss.anchor.model = fsdp2_prepare_model(self.accelerator, step_loss.anchor.model)
        self.add_callback(SayWhatIsSharded(step_loss.anchor, say))
        self.add_callback(_LogLastStep())
        if step_loss.budgets is not None:
            self.add_callback(_MoveBudgets(step_loss.budgets, self.accelerator))

    def create_accelerator_and_postprocess(self) -> None:
        """Accelerate's FSDP2 also where it would leave it out, on CPU."""
        super().create_accelerator_and_postprocess()
        if shard_on_cpu_too(self.accelerator):
            self.is_fsdp_enabled = True
        refuse_zero3(self.accelerator)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """The plan's micro-batches; accelerate deals them out to the processes in turn."""
        rows = self.args.per_device_train_batch_size
        sampler = PlanSampler(self.plan, rows, self._room(rows), self.collator.needs_anchor)
        loader = DataLoader(
            self.train_dataset,  # type: ignore[arg-type]
            batch_sampler=sampler,
            collate_fn=self.collator,
            pin_memory=self.args.dataloader_pin_memory,
            num_workers=self.args.dataloader_num_workers,
        )
        prepared: DataLoader[Any] = self.accelerator.prepare(loader)
        return prepared

    def _room(self, micro_batch: int) -> PassRoom | None:
        """What a pass may hold; None: a step's rows are dealt evenly, to several processes or on a CPU."""
        gpu = self.args.device.type == "cuda"
        tokens_per_pass = self.settings.tokens_per_pass
        if self.accelerator.num_processes > 1 or not (gpu or tokens_per_pass):
            return None
        longest = max(max(lengths, default=1) for lengths in self.plan.lengths)
        model: Any = self.model
        num_parameters = sum(weights.numel() for weights in model.parameters())
        return PassRoom(
            tokens=tokens_per_pass or micro_batch * longest,
            floor=least_worth(num_parameters, gpu=gpu),
            rows=self.settings.micro_batch if tokens_per_pass else None,
            packing=self.collator.packing,
        )

    def get_batch_samples(
        self, epoch_iterator: Iterator[MicroBatch], num_batches: int, device: torch.device
    ) -> tuple[list[MicroBatch], Tensor]:
        """A step's micro-batches and, instead of one count of labels, the counts of every stream (``MicroBatch.counts``)."""
        batches = [next(epoch_iterator) for _ in range(num_batches)]
        counts = torch.stack([batch.counts for batch in batches]).sum(0).to(device)
        return batches, self.accelerator.reduce(counts, "sum")

    def _prepare_inputs(self, inputs: MicroBatch) -> MicroBatch:  # type: ignore[override]
        return inputs.to(self.args.device)  # accelerate's loader has moved it; Trainer's own code knows mappings only

    def training_step(
        self,
        model: nn.Module,
        inputs: MicroBatch,  # type: ignore[override]
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """No pass where there are no rows. With a step rule: a pass for every group that has rows in this micro-batch."""
        if not inputs.rows and self.accelerator.num_processes == 1:
            return torch.zeros((), device=self.args.device)
        if self.passes is None:
            return super().training_step(model, inputs, num_items_in_batch)  # type: ignore[arg-type]
        whole, total = self.step_loss, torch.zeros((), device=self.args.device)
        there = {stream for stream, _, _ in inputs.spans}
        groups = enumerate(self.passes.rule.passes(self.state.global_step, len(whole.streams)))
        for group, streams in [(group, streams) for group, streams in groups if streams & there]:
            self.step_loss = replace(whole, only=streams)
            with self.passes.gradient_of(group, model):
                total = total + super().training_step(model, inputs, num_items_in_batch)  # type: ignore[arg-type]
            self.is_counted = False  # once is enough for the log, however many passes
        self.step_loss, self.is_counted = whole, True
        return total

    def compute_loss(
        self,
        model: nn.Module,
        inputs: MicroBatch,  # type: ignore[override]
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """The micro-batch's part of the step's loss. Stops in a step with a loss that is not a number."""
        assert isinstance(num_items_in_batch, Tensor)
        step = self.state.global_step + 1
        will_log = step % self.args.logging_steps == 0 or step == self.state.max_steps
        with self.accelerator.autocast():
            result = self.step_loss(
                model,
                inputs,
                num_items_in_batch,
                progress=self.plan.epoch_at(self.state.global_step) / self.plan.num_epochs,
                want_grad_norm=will_log,
            )
        self.unchecked.append((result.loss.detach(), inputs.rows))
        if self.accelerator.sync_gradients:
            self._check_losses()
        if self.is_counted:
            scale = replace(self.step_loss, only=None).scale(inputs.targets, num_items_in_batch)
            self.monitor.add(inputs, result, scale, steps_done=self.state.global_step)
        if self.is_counted and self.step_loss.budgets is not None:
            self.step_loss.budgets.add(inputs, result.per_token, num_items_in_batch)
        # DDP and FSDP average gradients over processes; ours are parts of one sum.
        loss: Tensor = result.loss * self.accelerator.num_processes
        return loss

    def _check_losses(self) -> None:
        """Raise ``InputError`` for a loss that is not finite. Checked once a step, because the host waits for a GPU here."""
        losses = torch.stack([loss for loss, _ in self.unchecked])
        if not torch.isfinite(losses).all():
            loss, rows = next(
                (loss, rows)
                for loss, (_, rows) in zip(losses.tolist(), self.unchecked, strict=True)
                if not math.isfinite(loss)
            )
            raise InputError(
                f"step {self.state.global_step + 1}: the loss is {loss}; the run stops and its last"
                f" checkpoint is good. Rows of this batch: {self.describe_rows(rows)}."
                " Look at them, or lower training.lr"
            )
        self.unchecked = []

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        if self.passes is not None:
            self.passes.combine(model, self.state.global_step, len(self.step_loss.streams))
        norm = super()._clip_grad_norm(model)
        if self.accelerator.scaler is None and norm is not None and not torch.isfinite(torch.as_tensor(norm)):
            raise InputError(
                f"step {self.state.global_step + 1}: the gradient is {float(norm)}; the run stops before using it and its"
                " last checkpoint is good. Lower training.lr, or set training.precision: fp32"
            )
        return norm

    def floating_point_ops(self, inputs: MicroBatch) -> int:  # type: ignore[override]
        """Not counted: Trainer's formula assumes that every token is a target."""
        return 0

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Trainer's figures and ours, in one row of steps.jsonl and to every tracker asked for."""
        of_the_plan = self.state.epoch  # Trainer's epoch is the whole plan; trackers are given ours
        if "loss" in logs:
            logs = self.monitor.row(self.state.global_step, self.plan, logs, self.accelerator)
        self.state.epoch = self.plan.epoch_at(self.state.global_step)
        super().log(logs, start_time)
        self.state.epoch = of_the_plan

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Refused: there are no rows for it. Only a callback can ask."""
        raise InputError(
            "a callback set control.should_evaluate, and a run makes no evaluations; use on_log or on_step_end"
        )

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        save_state(self)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        if self.passes is not None:
            raise InputError(f"{resume_from_checkpoint}: a run with a step rule is not resumed; use another folder")
        if not self.is_fsdp_enabled:
            super()._load_from_checkpoint(resume_from_checkpoint, model)
        elif model is not None:  # Trainer asks twice: only the second time are the weights sharded
            load_sharded(model, Path(resume_from_checkpoint))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if self.is_deepspeed_enabled:  # its engine has loaded them with the model
            super()._load_optimizer_and_scheduler(checkpoint)
        elif checkpoint is not None:
            load_state(self, Path(checkpoint))
        if checkpoint is not None and (Path(checkpoint) / "figures.json").exists():
            self.monitor.go_on(load_tree(Path(checkpoint), "figures"), main=self.accelerator.is_main_process)
        if checkpoint is not None and self.step_loss.budgets is not None:
            self.step_loss.budgets.go_on(load_tree(Path(checkpoint), "budgets"))

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            for line in load_rng(Path(checkpoint), rank=self.args.process_index):
                self.say(line)
