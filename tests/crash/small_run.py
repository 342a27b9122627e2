"""A deterministic training run that uses the checkpoints as the trainer does, small enough to be killed 200 times.

Every kind of state matters to its result: dropout draws from torch, the batches from ``random``, the noise from numpy,
the moments and the schedule from the optimizer. ``run(directory, until_step, on_point)`` resumes if it can.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from holdfast.training.checkpoints import durable
from holdfast.training.checkpoints.durable import load_tree, save_tree
from holdfast.training.checkpoints.folders import resume_point, save_checkpoint, step_of
from holdfast.training.checkpoints.state import load_optimizer, load_rng, save_optimizer, save_rng
from holdfast.training.run_directory import StepLog

VOCABULARY, WIDTH, SAVE_EVERY, KEEP = 11, 8, 2, 1


def run(directory: Path, until_step: int, on_point: Callable[[str], None]) -> None:
    """Train in ``directory`` up to a step, from its newest good checkpoint if there is one."""
    durable.at_point = on_point
    directory.mkdir(parents=True, exist_ok=True)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH),
        nn.Dropout(0.3),
        nn.Linear(WIDTH, WIDTH),
        nn.GELU(),
        nn.Linear(WIDTH, VOCABULARY),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 + 0.5 * math.cos(step / 5))
    log = StepLog(directory / "steps.jsonl")
    checkpoint, _ = resume_point(directory / "checkpoints", keep=KEEP)
    start = 0
    if checkpoint:
        start = step_of(checkpoint)
        model.load_state_dict(load_file(checkpoint / "model.safetensors"))
        load_optimizer(optimizer, checkpoint)
        schedule.load_state_dict(load_tree(checkpoint, "scheduler"))
        assert load_rng(checkpoint) == []
    log.rewind(start)

    def write(folder: Path) -> None:
        durable.at_point("before-file:model.safetensors")
        save_file(model.state_dict(), folder / "model.safetensors")
        durable.at_point("after-file:model.safetensors")
        save_optimizer(optimizer, folder)
        save_tree(folder, "scheduler", schedule.state_dict())
        save_rng(folder)
        log.sync()

    for step in range(start + 1, until_step + 1):
        loss = _loss(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.append({"step": step, "loss": loss.item(), "lr": schedule.get_last_lr()[0]})
        schedule.step()
        if step % SAVE_EVERY == 0:
            save_checkpoint(directory / "checkpoints", step, write, keep=KEEP)


def _loss(model: nn.Module) -> torch.Tensor:
    ids = torch.tensor([random.randrange(VOCABULARY) for _ in range(6)])
    logits = model(ids) + torch.from_numpy(np.random.normal(0, 0.1, (6, VOCABULARY)).astype(np.float32))
    return nn.functional.cross_entropy(logits, (ids * 3 + 1) % VOCABULARY)
