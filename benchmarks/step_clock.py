"""Time and memory of a Trainer's steps: a callback between the ends of steps, and a watch on the head inside them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import TrainerCallback

from holdfast.heads import fused_loss
from holdfast.training import loss as loss_module

WARM_UP = 2
NAME = "fused_loss"  # of the head's work, in the module of the loss


class HeadWatch:
    """Watches what is alive when the head begins, and what the head adds. It replaces the loss's ``fused_loss``."""

    def __init__(self, device: str) -> None:
        self.work, self.on_gpu = fused_loss, device == "cuda"
        self.before = self.head = self.peak = self.passes = 0

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Call ``fused_loss``, and keep the figures of the pass with most bytes alive."""
        self.passes += 1
        if not self.on_gpu:
            return self.work(*given, **options)
        self.peak = max(self.peak, torch.cuda.max_memory_allocated())
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = self.work(*given, **options)
        self.before = max(self.before, before)
        self.head = max(self.head, torch.cuda.max_memory_allocated() - before)
        return result

    @contextmanager
    def at_work(self) -> Iterator[HeadWatch]:
        """Within, every pass is watched."""
        setattr(loss_module, NAME, self)
        try:
            yield self
        finally:
            setattr(loss_module, NAME, self.work)


class StepClock(TrainerCallback):
    """Milliseconds between the ends of steps after the warm-up, those of the optimizer alone, and the peak of them all."""

    def __init__(self, device: str, watch: HeadWatch) -> None:
        self.on_gpu, self.watch = device == "cuda", watch
        self.ends: list[float] = []
        self.optimizer: list[float] = []
        self.peak = self.reserved = 0
        self._begun = 0.0

    def now(self) -> float:
        """The time when everything queued so far is done."""
        if self.on_gpu:
            torch.cuda.synchronize()
        return 1e3 * time.perf_counter()

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        """Gradients are there."""
        self._begun = self.now()

    def on_optimizer_step(self, *_: Any, **__: Any) -> None:
        """Weights have changed."""
        self.optimizer.append(self.now() - self._begun)

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """The peak counts from the end of the warm-up."""
        self.ends.append(self.now())
        if self.on_gpu and len(self.ends) == WARM_UP:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            self.watch.peak = 0

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Before anything is freed."""
        if self.on_gpu:
            self.peak = max(self.watch.peak, torch.cuda.max_memory_allocated())
            self.reserved = torch.cuda.memory_reserved()

    def figures(self, window: int) -> dict[str, float]:
        """``window``: steps that belong together, of which some have more rows than others."""
        steps = [b - a for a, b in zip(self.ends[WARM_UP - 1 :], self.ends[WARM_UP:], strict=False)]
        means = [statistics.mean(steps[at : at + window]) for at in range(0, len(steps) - window + 1, window)]
        return {
            "ms": round(statistics.median(means), 2),
            "optimizer ms": round(statistics.median(self.optimizer[WARM_UP:]), 2),
            "fastest ms": round(min(means), 2),
            "slowest ms": round(max(means), 2),
            "peak GB": round(self.peak / 1e9, 2),
            "reserved GB": round(self.reserved / 1e9, 2),
            "passes": self.watch.passes / len(self.ends),  # of the policy in a step; 0 where the head is not ours
        }
