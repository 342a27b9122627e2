"""Two processes save one checkpoint: all of it or none, and both learn which."""

from __future__ import annotations

import errno
import os
import random
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from crash.forked import in_processes
from holdfast.training.checkpoints.durable import CheckpointError
from holdfast.training.checkpoints.folders import save_checkpoint, verify
from holdfast.training.checkpoints.state import load_optimizer, load_rng, save_optimizer, save_rng


def test_every_process_leaves_its_random_state(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoints"

    def work(rank: int) -> None:
        random.seed(rank)
        path = save_checkpoint(directory, 2, lambda folder: save_rng(folder, rank), keep=1)
        assert path == directory / "step-000002"
        expected = random.random()
        assert save_checkpoint(directory, 2, lambda _: pytest.fail("saved already"), keep=1) == path
        save_checkpoint(directory, 4, lambda folder: save_rng(folder, rank), keep=2)
        random.seed(9)
        assert load_rng(path, rank) == []
        assert random.random() == expected

    in_processes(work, tmp_path)
    assert verify(directory / "step-000002") == []
    names = {path.name for path in (directory / "step-000002").iterdir()}
    assert {"rng-0.json", "rng-1.json", "rng-0.safetensors", "rng-1.safetensors", "MANIFEST.json"} == names
    assert sorted(path.name for path in directory.iterdir()) == ["step-000002", "step-000004"]


@pytest.mark.parametrize("failing", [0, 1])
def test_when_one_process_fails_all_learn_it_and_nothing_is_saved(failing: int, tmp_path: Path) -> None:
    directory = tmp_path / "checkpoints"

    def work(rank: int) -> None:
        save_checkpoint(directory, 2, lambda folder: save_rng(folder, rank), keep=1)

        def write(folder: Path) -> None:
            save_rng(folder, rank)
            if rank == failing:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / f"rng-{rank}.json"))

        with pytest.raises(CheckpointError) as caught:
            save_checkpoint(directory, 4, write, keep=1)
        line = str(caught.value)
        if rank == failing:
            assert line.startswith(
                f"checkpoints/step-000004: not saved: rng-{rank}.json: No space left on device; older"
            )
        else:
            assert re.match(f"no checkpoint was saved, because process {failing} failed: .*No space left", line)

    in_processes(work, tmp_path)
    assert [path.name for path in directory.iterdir()] == ["step-000002"]


def test_a_sharded_optimizer_comes_back_in_any_number_of_processes(tmp_path: Path) -> None:
    """FSDP2 over two processes: uneven rows (5 over 2), restored in the same two, and in one process."""

    def plain() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
        return model, torch.optim.AdamW(model.parameters(), lr=1e-2)

    def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
        for step in range(steps):
            optimizer.zero_grad()
            model(torch.full((2, 4), 0.1 * step + 0.2)).pow(2).sum().backward()
            optimizer.step()

    def sharded() -> tuple[nn.Module, torch.optim.Optimizer]:
        model, _ = plain()
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
        return model, torch.optim.AdamW(model.parameters(), lr=1e-2)

    def work(rank: int) -> None:
        model, optimizer = sharded()
        train(model, optimizer, 2)
        moments = [state["exp_avg"] for state in optimizer.state.values()]
        assert all(isinstance(moment, DTensor) for moment in moments)
        path = save_checkpoint(tmp_path, 2, lambda folder: save_optimizer(optimizer, folder, main=rank == 0), keep=1)
        _, restored = sharded()
        load_optimizer(restored, path)
        for ours, theirs in zip(restored.state.values(), optimizer.state.values(), strict=True):
            for name, value in ours.items():
                assert type(value) is type(theirs[name])
                here, there = (v.to_local() if isinstance(v, DTensor) else v for v in (value, theirs[name]))
                assert torch.equal(here, there)
        train(model, restored, 1)

    in_processes(work, tmp_path)
    model, optimizer = plain()
    train(model, optimizer, 2)
    _, restored = plain()
    load_optimizer(restored, tmp_path / "step-000002")
    for ours, theirs in zip(restored.state.values(), optimizer.state.values(), strict=True):
        assert torch.equal(ours["step"], theirs["step"])
        torch.testing.assert_close(ours["exp_avg"], theirs["exp_avg"], rtol=1e-5, atol=1e-8)
