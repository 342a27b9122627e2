"""Optimizer, scheduler and random state come back bit for bit, or are refused by name."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from safetensors import safe_open
from torch import Tensor, nn
from torch.optim import Optimizer

from holdfast.training.checkpoints.durable import CheckpointError, load_tree, save_tree
from holdfast.training.checkpoints.state import load_optimizer, load_rng, save_optimizer, save_rng

Make = Callable[[list[dict[str, Any]]], Optimizer]


def eight_bit(groups: list[dict[str, Any]]) -> Optimizer:
    bitsandbytes = pytest.importorskip("bitsandbytes")
    optimizer: Optimizer = bitsandbytes.optim.AdamW8bit(groups, lr=1e-2, min_8bit_size=16)
    return optimizer


OPTIMIZERS: dict[str, Make] = {
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=1e-2),
    "adamw-amsgrad-tensor-lr": lambda groups: torch.optim.AdamW(
        groups, lr=torch.tensor(1e-2), amsgrad=True, foreach=False
    ),
    "adamw-fused": lambda groups: torch.optim.AdamW(groups, lr=1e-2, fused=True),
    "sgd-momentum": lambda groups: torch.optim.SGD(groups, lr=1e-2, momentum=0.9),
    "sgd": lambda groups: torch.optim.SGD(groups, lr=1e-2),
    "adafactor": lambda groups: torch.optim.Adafactor(groups, lr=1e-2),
    "rmsprop": lambda groups: torch.optim.RMSprop(groups, lr=1e-2, centered=True),
    "adamw-8bit": eight_bit,
}


def model_of(seed: int = 0, width: int = 8, dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 3), nn.Linear(3, 3)).to(dtype)


def groups_of(model: nn.Module) -> list[dict[str, Any]]:
    matrices = [p for p in model.parameters() if p.ndim == 2]
    rest = [p for p in model.parameters() if p.ndim != 2]
    return [{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]


def train(model: nn.Module, optimizer: Optimizer, steps: int, seed: int = 7) -> None:
    draw = torch.Generator().manual_seed(seed)
    first = next(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        x = torch.randn(4, 8, generator=draw).to(first)
        model(x).pow(2).sum().backward()
        optimizer.step()


def same(left: Any, right: Any) -> bool:
    """Equal in type, dtype, device and every bit."""
    if isinstance(left, Tensor):
        return left.dtype == right.dtype and left.device == right.device and torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right or (left != left and right != right))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    model = model_of()
    optimizer = OPTIMIZERS[name](groups_of(model))
    train(model, optimizer, 3)
    save_optimizer(optimizer, tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.suffix not in {".json", ".safetensors"}]

    other = model_of(seed=1)
    restored = OPTIMIZERS[name](groups_of(other))
    train(other, restored, 1, seed=9)  # something to overwrite
    other.load_state_dict(model.state_dict())
    load_optimizer(restored, tmp_path)
    assert same(restored.state_dict(), optimizer.state_dict())
    train(model, optimizer, 3)
    train(other, restored, 3)
    assert same(dict(other.state_dict()), dict(model.state_dict()))
    assert same(restored.state_dict(), optimizer.state_dict())


def test_tensors_are_named_by_parameter(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, 1)
    save_optimizer(optimizer, tmp_path)
    with safe_open(tmp_path / "optimizer.safetensors", "pt") as file:
        assert set(file.keys()) == {f"{i}.{name}" for i in range(6) for name in ("exp_avg", "exp_avg_sq", "step")}
        assert file.get_slice("0.step").get_shape() == []


def test_float32_moments_of_bf16_weights_are_not_rounded(tmp_path: Path) -> None:
    """torch's own load_state_dict would cast them to bf16."""
    model = model_of(dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, 1)
    for state in optimizer.state.values():
        state["exp_avg"] = torch.randn(state["exp_avg"].shape)
    save_optimizer(optimizer, tmp_path)
    restored = torch.optim.AdamW(model.parameters())
    load_optimizer(restored, tmp_path)
    assert same(restored.state_dict(), optimizer.state_dict())
    assert restored.state[next(model.parameters())]["exp_avg"].dtype == torch.float32


def test_parameters_without_a_gradient_have_no_state(tmp_path: Path) -> None:
    model = model_of()
    model[0].requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, 1)
    save_optimizer(optimizer, tmp_path)
    restored = torch.optim.AdamW(model.parameters())
    load_optimizer(restored, tmp_path)
    assert same(restored.state_dict(), optimizer.state_dict())
    assert len(restored.state) == 4


def test_an_optimizer_that_has_not_stepped(tmp_path: Path) -> None:
    model = model_of()
    save_optimizer(torch.optim.AdamW(model.parameters(), lr=0.5), tmp_path)
    restored = torch.optim.AdamW(model.parameters(), lr=0.1)
    load_optimizer(restored, tmp_path)
    assert restored.param_groups[0]["lr"] == 0.5
    assert not restored.state


def test_accelerates_wrapper_is_seen_through(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, 2)
    save_optimizer(Accelerator(cpu=True).prepare(optimizer), tmp_path)
    wrapped = Accelerator(cpu=True).prepare(torch.optim.AdamW(model.parameters()))
    load_optimizer(wrapped, tmp_path)
    assert same(wrapped.state_dict(), optimizer.state_dict())


def test_a_loaded_state_does_not_hang_on_the_file(tmp_path: Path) -> None:
    model = model_of()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, 2)
    save_optimizer(optimizer, tmp_path)
    restored = torch.optim.AdamW(model.parameters())
    load_optimizer(restored, tmp_path)
    (tmp_path / "optimizer.safetensors").write_bytes(b"\0" * (tmp_path / "optimizer.safetensors").stat().st_size)
    assert same(restored.state_dict(), optimizer.state_dict())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: torch.optim.SGD(model_of().parameters()), "saved by AdamW, this run uses SGD"),
        (
            lambda: torch.optim.AdamW(model_of()[0].parameters()),
            r"saved for groups of \[6\] parameters, this run has \[2\]",
        ),
        (
            lambda: torch.optim.AdamW(groups_of(model_of())),
            r"saved for groups of \[6\] parameters, this run has \[3, 3\]",
        ),
        (
            lambda: torch.optim.AdamW(model_of(width=9).parameters()),
            r"optimizer\.json: parameter 0 was saved with shape \[8, 8\], it has \[9, 9\] now; resume with the model",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make: Callable[[], Optimizer], said: str, tmp_path: Path) -> None:
    save_optimizer(torch.optim.AdamW(model_of().parameters()), tmp_path)
    optimizer = make()
    before = optimizer.state_dict()
    with pytest.raises(CheckpointError, match=said):
        load_optimizer(optimizer, tmp_path)
    assert same(optimizer.state_dict(), before)


@pytest.mark.parametrize("name", ["LambdaLR", "OneCycleLR", "ReduceLROnPlateau", "MultiStepLR"])
def test_schedulers_come_back(name: str, tmp_path: Path) -> None:
    def make() -> tuple[Optimizer, Any]:
        optimizer = torch.optim.SGD(model_of().parameters(), lr=0.1, momentum=0.9)
        options: dict[str, dict[str, Any]] = {
            "LambdaLR": {"lr_lambda": lambda step: 1 / (1 + step)},
            "OneCycleLR": {"max_lr": 0.3, "total_steps": 20},
            "ReduceLROnPlateau": {"patience": 1},
            "MultiStepLR": {"milestones": [2, 2, 5]},
        }
        return optimizer, getattr(torch.optim.lr_scheduler, name)(optimizer, **options[name])

    def steps(optimizer: Optimizer, scheduler: Any, count: int) -> list[float]:
        rates = []
        for _ in range(count):
            optimizer.step()
            scheduler.step(*([1.0] if name == "ReduceLROnPlateau" else []))
            rates.append(optimizer.param_groups[0]["lr"])
        return rates

    optimizer, scheduler = make()
    steps(optimizer, scheduler, 3)
    save_optimizer(optimizer, tmp_path)
    save_tree(tmp_path, "scheduler", scheduler.state_dict())
    again, restored = make()
    load_optimizer(again, tmp_path)
    restored.load_state_dict(load_tree(tmp_path, "scheduler"))
    assert steps(again, restored, 6) == steps(optimizer, scheduler, 6)


def test_trees_keep_types_and_bits(tmp_path: Path) -> None:
    shared = torch.arange(4.0)
    tree = {
        "floats": [0.1, -0.0, math.inf, -math.inf, math.nan, 1e-320, np.float64(0.3).item()],
        "tuple": (1, (True, None), "x"),
        "numbered": {0: "a", 1: {"$float": "not a tag"}},
        "tensors": [shared, shared[1:3], shared, torch.tensor(3), torch.ones(2, 3).T, torch.zeros(0)],
        "nested": {"a": {"b": torch.tensor([1.5], dtype=torch.bfloat16)}},
    }
    save_tree(tmp_path, "t", tree)
    assert same(load_tree(tmp_path, "t"), tree)
    assert math.copysign(1, load_tree(tmp_path, "t")["floats"][1]) == -1
    save_tree(tmp_path, "counted", {"c": Counter({2: 3}), "n": np.int64(4)})
    assert load_tree(tmp_path, "counted") == {"c": {2: 3}, "n": 4}


def test_what_needs_pickle_is_refused_by_its_place(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"a\.1: a function cannot be saved without pickle"):
        save_tree(tmp_path, "t", {"a": [1, lambda: 0]})
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "step-000001"
    folder.mkdir()
    save_tree(folder, "t", {"a": torch.zeros(3)})
    (folder / "t.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(CheckpointError, match=r"step-000001/t\.safetensors: cannot be read"):
        load_tree(folder, "t")
    (folder / "t.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"step-000001/t\.json: cannot be read"):
        load_tree(folder, "t")


def draws() -> list[Any]:
    numbers = [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), torch.rand(3), torch.randn(2)]
    return [*numbers, torch.rand(3, device="cuda")] if torch.cuda.is_available() else numbers


def test_random_numbers_go_on_where_they_were(tmp_path: Path) -> None:
    draws()  # an odd number of gaussians leaves one cached in each generator
    save_rng(tmp_path, rank=3)
    expected = draws()
    draws()
    assert load_rng(tmp_path, rank=3) == []
    assert same(draws(), expected)
    assert {path.name for path in tmp_path.iterdir()} == {"rng-3.json", "rng-3.safetensors"}


def test_a_process_that_was_not_there_is_told(tmp_path: Path) -> None:
    save_rng(tmp_path, rank=0)
    state = torch.get_rng_state()
    (line,) = load_rng(tmp_path, rank=1)
    assert "saved by fewer processes: process 1 draws its random numbers afresh" in line
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.gpu
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_on_cuda_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    model = model_of().cuda()
    optimizer = OPTIMIZERS[name](groups_of(model))
    train(model, optimizer, 3)
    save_optimizer(optimizer, tmp_path)
    other = model_of(seed=1).cuda()
    other.load_state_dict(model.state_dict())
    restored = OPTIMIZERS[name](groups_of(other))
    load_optimizer(restored, tmp_path)
    assert same(restored.state_dict(), optimizer.state_dict())
    train(model, optimizer, 3)
    train(other, restored, 3)
    assert same(dict(other.state_dict()), dict(model.state_dict()))
    assert same(restored.state_dict(), optimizer.state_dict())
