"""SafeGrad and Lisa against their formulas: in float64 on tensors, and in one step of the trainer."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from holdfast.attacks import WorldSetting
from holdfast.config import InputError, TrainConfig
from holdfast.data import traces_in_memory
from holdfast.models import tiny_path
from holdfast.records import Trace
from holdfast.training import train
from holdfast_studies.rivals import TASK, Lisa, SafeGrad, others

LR = 0.5


def _gradients(seed: int, sign: float) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Two gradients over two parameters; ``sign`` decides whether they agree."""
    generator = torch.Generator().manual_seed(seed)
    task = [torch.randn(3, 4, generator=generator, dtype=torch.float64), torch.randn(5, generator=generator).double()]
    held = [sign * each + 0.3 * torch.randn(each.shape, generator=generator, dtype=torch.float64) for each in task]
    return task, held


def _flat(tensors: list[torch.Tensor]) -> np.ndarray:  # type: ignore[type-arg]
    return np.concatenate([tensor.numpy().ravel() for tensor in tensors])


def test_safegrad_takes_away_what_points_against_the_held_streams() -> None:
    task, held = _gradients(0, -1.0)
    g, h = _flat(task), _flat(held)
    assert g @ h < 0
    expected = g - (g @ h) / (h @ h) * h + h
    found = _flat(SafeGrad().combined(0, [], [task, held]))
    assert np.abs(found - expected).max() < 1e-12
    assert abs((found - h) @ h) < 1e-12, "what is left of the task is at right angles to the held gradient"


def test_safegrad_leaves_gradients_that_agree_and_steps_without_held_rows() -> None:
    task, held = _gradients(1, 1.0)
    assert np.array_equal(_flat(SafeGrad().combined(0, [], [task, held])), _flat(task) + _flat(held))
    nothing = [torch.zeros_like(each) for each in task]
    assert np.array_equal(_flat(SafeGrad().combined(0, [], [task, nothing])), _flat(task))


def test_lisa_alternates_and_is_drawn_to_the_last_change() -> None:
    """Gradient descent on two quadratics, against the same written out in numpy."""
    run, rho, lr = Lisa(held_steps=2, task_steps=3, rho=0.7).begin(), 0.7, 0.1
    goals = {TASK: np.array([3.0, -1.0]), others(3): np.array([-2.0, 0.5])}
    weight, expected = torch.zeros(2, dtype=torch.float64), np.zeros(2)
    last, order = expected, []
    for step in range(11):
        (group,) = run.passes(step, 3)
        order.append(group == TASK)
        if step % 5 in (0, 2):
            last = expected
        expected = expected - lr * (expected - goals[group] + rho * (expected - last))
        (gradient,) = run.combined(step, [weight], [[weight - torch.from_numpy(goals[group])]])
        weight = weight - lr * gradient
    assert order == [False, False, True, True, True] * 2 + [False]
    assert np.abs(weight.numpy() - expected).max() < 1e-14


class OneGroup:
    """A rule that steps along the gradient of some streams."""

    def __init__(self, streams: frozenset[int]) -> None:
        self.streams = streams

    def begin(self) -> "OneGroup":
        return self

    def passes(self, step: int, num_streams: int) -> list[frozenset[int]]:
        return [self.streams]

    def combined(self, step, parameters, gradients):  # type: ignore[no-untyped-def]
        return gradients[0]


def _change(folder: Path, rule: object) -> dict[str, torch.Tensor]:
    """Weights after one step of plain gradient descent, minus those before."""

    def rows(traces: list[Trace]) -> dict[str, object]:
        dataset = traces_in_memory(traces)
        return {"data": dataset.source, "rows": dataset}

    world = WorldSetting()

    config = TrainConfig.model_validate(
        {
            "run": str(folder),
            "model": {"name": "tiny:aligned", "device": "cpu"},
            "streams": [
                {**rows(world.attacker_rows(3, 0)), "share": 3},
                {**rows(world.refused_rows(3, 0)), "share": 3, "weight": 2.0},
            ],
            "training": {
                "max_steps": 1,
                "batch_size": 6,
                "micro_batch": 2,
                "lr": LR,
                "optimizer": "sgd",
                "max_grad_norm": 1e9,
            },
        }
    )
    train(config, say=lambda _: None, progress=False, throwaway=True, step_rule=rule)  # type: ignore[arg-type]
    before = load_file(tiny_path("tiny:aligned") / "model.safetensors")
    after = load_file(folder / "model" / "model.safetensors")
    return {name: (after[name].double() - before[name].double()) / -LR for name in after}


@pytest.mark.slow
def test_the_trainer_keeps_the_gradients_of_the_groups_apart(tmp_path: Path) -> None:
    """Micro-batches hold rows of both streams: two passes each."""
    task, held, both, found = (
        _change(tmp_path / str(number), rule)
        for number, rule in enumerate((OneGroup(TASK), OneGroup(frozenset({1})), None, SafeGrad()))
    )
    g, h = (torch.cat([each[name].ravel() for name in both]) for each in (task, held))
    summed, projected = (torch.cat([each[name].ravel() for name in both]) for each in (both, found))
    assert torch.allclose(summed, g + h, atol=2e-5)
    expected = g - min(0.0, float(g @ h)) / float(h @ h) * h + h
    assert torch.allclose(projected, expected, atol=2e-5)
    assert float(g.norm()) > 1e-2
    assert float(h.norm()) > 1e-2


def test_a_rule_without_clipping_is_refused(tmp_path: Path) -> None:
    config = {
        "run": str(tmp_path / "run"),
        "model": {"name": "tiny:aligned", "device": "cpu"},
        "streams": [{"data": "world:safety/train/recipe", "limit": 4}],
        "training": {"max_steps": 1, "batch_size": 2, "max_grad_norm": 0},
    }
    with pytest.raises(InputError, match=r"a step rule takes one process"):
        train(TrainConfig.model_validate(config), say=lambda _: None, progress=False, step_rule=SafeGrad())
