"""What a run says about itself: plain NLL beside every weighted loss, by stream and by role (MATH §2).

Sums stay on the device until a row is written. ``steps.jsonl`` holds only what is a function of data and seed, so that a
resumed run's file equals an uninterrupted one's; clocks and memory go to ``timing.jsonl``.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from holdfast.heads import FusedLoss
from holdfast.records import Role
from holdfast.training.collate import MicroBatch
from holdfast.training.loss import StepLoss, StreamLoss
from holdfast.training.plan import StepPlan
from holdfast.training.run_directory import RunDirectory, StepLog

FIGURES = ("loss", "nll", "tokens")


class StepMonitor:
    """Adds up figures over the micro-batches between two rows of the log."""

    def __init__(self, step_loss: StepLoss, run: RunDirectory, device: torch.device) -> None:
        self.streams, self.budgets, self.device = step_loss.streams, step_loss.budgets, device
        self.steps, self.timing = StepLog(run.steps), StepLog(run.timing)
        self._reset()

    def _reset(self) -> None:
        self.steps_before: int | None = None  # that were done when the first of these was begun
        self.loss = torch.zeros((), dtype=torch.float64, device=self.device)
        widths = [len(FIGURES) + len(stream.gauges) for stream in self.streams]
        self.by_stream = [torch.zeros(width, dtype=torch.float64, device=self.device) for width in widths]
        self.by_role = torch.zeros(len(Role), len(FIGURES) + 1, dtype=torch.float64, device=self.device)
        self.fed_tokens = 0
        self.since = time.monotonic()

    @torch.no_grad()
    def add(self, batch: MicroBatch, result: FusedLoss, scale: Tensor, *, steps_done: int) -> None:
        """Take in one micro-batch of the step that follows ``steps_done`` others; ``scale``: of every token in the loss."""
        self.steps_before = steps_done if self.steps_before is None else self.steps_before
        role, position = batch.targets.role, batch.targets.position
        self.fed_tokens += batch.inputs.ids.numel()
        self.loss += result.loss
        for (number, start, stop), stats in zip(batch.spans, result.stats, strict=True):
            rows = slice(start, stop)
            loss, nll, ones = result.per_token[rows], -stats.logp, torch.ones_like(stats.logp)
            gauges = [gauge(stats, position[rows]) for gauge in self.streams[number].gauges.values()]
            columns = [loss, nll, ones, *gauges]
            self.by_stream[number] += torch.stack(columns).double().sum(1)
            gradient = ones.new_zeros(stop - start) if result.grad_norm is None else result.grad_norm[rows]
            columns = [loss, nll, ones, gradient * scale[rows]]
            self.by_role.index_add_(0, role[rows], torch.stack(columns, 1).double())

    def row(self, step: int, plan: StepPlan, logs: Mapping[str, float], accelerator: Any) -> dict[str, float]:
        """Write one row of each log; return the figures flattened, for trackers and the progress bar."""
        assert self.steps_before is not None
        sums = self.sums(accelerator)
        by_stream, by_role = [stream.tolist() for stream in sums["by_stream"]], sums["by_role"].tolist()
        if self.budgets is not None and "learning_rate" in logs:
            logs = {**logs, "learning_rate": logs["learning_rate"] * self.budgets.last_step_size}
        row = {
            "step": step,
            "epoch": plan.epoch_at(step),
            "loss": sums["loss"].item() / (step - self.steps_before),
            **{name: logs[name] for name in ("grad_norm", "learning_rate") if name in logs},
            "nll": sum(sums[1] for sums in by_stream) / max(1, sum(sums[2] for sums in by_stream)),
            "streams": {
                s.name: {**_stream_means(by_stream[i], s), **self._drift(i)} for i, s in enumerate(self.streams)
            },
            "roles": _role_means(by_role),
        }
        if accelerator.is_main_process:
            seconds = time.monotonic() - self.since
            fed = self.fed_tokens * accelerator.num_processes
            timing = {"step": step, "tokens_per_second": round(fed / seconds, 1), "memory_bytes": _memory(self.device)}
            self.steps.append(row)
            self.timing.append(timing)
        self._reset()
        return dict(_flat(row))

    def _drift(self, stream: int) -> dict[str, float]:
        return self.budgets.row(stream) if self.budgets is not None and self.budgets.held(stream) else {}

    def sums(self, accelerator: Any) -> dict[str, Any]:
        """The sums since the last row, over all processes, which a checkpoint keeps. Every process takes part."""
        return {
            "steps_before": self.steps_before,
            "loss": accelerator.reduce(self.loss, "sum"),
            "by_stream": [accelerator.reduce(stream, "sum") for stream in self.by_stream],
            "by_role": accelerator.reduce(self.by_role, "sum"),
        }

    def go_on(self, sums: Mapping[str, Any], *, main: bool) -> None:
        """Restore the sums from a checkpoint. The main process alone gets them, because a row adds up over processes."""
        self.steps_before = sums["steps_before"]
        if main:
            self.loss, self.by_role, *self.by_stream = (
                figures.to(self.device) for figures in (sums["loss"], sums["by_role"], *sums["by_stream"])
            )


def _stream_means(sums: Sequence[float], stream: StreamLoss) -> dict[str, float]:
    named = dict(zip((*FIGURES, *stream.gauges), sums, strict=True))
    tokens = named.pop("tokens")
    return {**{name: value / max(1, tokens) for name, value in named.items()}, "tokens": int(tokens)}


def _role_means(by_role: Sequence[Sequence[float]]) -> dict[str, dict[str, float]]:
    total = sum(sums[3] for sums in by_role)
    means = {}
    for role, (loss, nll, tokens, gradient) in zip(Role, by_role, strict=True):
        if tokens:
            # Unknown in a row that a callback asked for: gradients are taken where the schedule logs.
            share = {"gradient_share": gradient / total} if total else {}
            means[role.label] = {"loss": loss / tokens, "nll": nll / tokens, **share, "tokens": int(tokens)}
    return means


def _flat(row: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    flat: list[tuple[str, float]] = []
    for name, value in row.items():
        flat += _flat(value, f"{prefix}{name}/") if isinstance(value, Mapping) else [(prefix + name, value)]
    return flat


def _memory(device: torch.device) -> int:
    """Peak bytes: of the device where it counts them, else of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
