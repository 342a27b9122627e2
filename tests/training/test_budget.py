"""Drift budgets (MATH §9): the controller on problems whose answer is known."""

import math

import numpy as np
import pytest
import torch
from numpy.linalg import solve

from holdfast.training.budget import HIGHEST, LOWEST, START, Controller, standing, width

A = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]])
H = np.array([[0.5, -0.4, 0.0], [-0.4, 1.5, 0.3], [0.0, 0.3, 1.0]])  # does not commute with A
OTHER = np.diag([0.02, 0.01, 0.03])
TARGET = np.array([1.0, -2.0, 1.5])


def drift(x: np.ndarray, h: np.ndarray = H) -> float:
    return float(0.5 * x @ h @ x)


def solution(weight: float) -> np.ndarray:
    """The minimum of L + weight * k."""
    return solve(A + weight * H, A @ TARGET)


def oracle(budget: float) -> float:
    """lambda* by bisection: k at the minimum falls as lambda grows."""
    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if drift(solution(middle)) > budget else (low, middle)
    return low


def descend(
    budgets: list[tuple[np.ndarray, float]], *, steps: int = 30_000, lr: float = 0.01, every: int = 1
) -> tuple[np.ndarray, list]:
    x, controllers = np.zeros(3), [Controller() for _ in budgets]
    for step in range(steps):
        gradient = A @ (x - TARGET)
        is_held = (step + 1) % every == 0
        for (h, _), controller in zip(budgets, controllers, strict=True):
            gradient = gradient + is_held * every * controller.weight * h @ x
        drifts = [drift(x, h) for h, _ in budgets]
        x = x - lr * gradient
        if not is_held:
            continue
        controllers = [
            controller.updated(k, budget, share_done=(step + 1) / steps, every=every)
            for controller, k, (_, budget) in zip(controllers, drifts, budgets, strict=True)
        ]
    return x, controllers


@pytest.mark.parametrize("budget", [0.03, 0.3])
def test_descent_comes_to_the_constrained_minimum(budget: float) -> None:
    assert drift(TARGET) > budget
    x, (controller,) = descend([(H, budget)])
    assert abs(drift(x) / budget - 1) < 1e-3
    assert abs(controller.weight / oracle(budget) - 1) < 1e-3
    assert np.abs(A @ (x - TARGET) + controller.weight * H @ x).max() < 1e-3


@pytest.mark.parametrize("every", [2, 4])
def test_holding_in_every_nth_step_comes_to_the_same_place(every: int) -> None:
    """lambda means the same: of the mean over steps. Within 5 %: x swings between a held step and the next one."""
    x, (controller,) = descend([(H, 0.3)], steps=8000, lr=0.002, every=every)
    assert abs(drift(x) / 0.3 - 1) < 0.05
    assert abs(controller.weight / oracle(0.3) - 1) < 0.05


def test_a_step_that_stands_for_two() -> None:
    """k = .06 twice is k = .06 once for both: the same average and the same integral."""
    twice = Controller().updated(0.06, 0.03, share_done=0.5).updated(0.06, 0.03, share_done=0.5)
    once = Controller().updated(0.06, 0.03, share_done=0.5, every=2)
    assert (once.integral, once.kbar) == (pytest.approx(twice.integral), pytest.approx(twice.kbar))
    # Then k = 0: kbar = (.25 * .06) / (.25 + 1) = .012.
    assert once.updated(0.0, 0.03, share_done=0.6, every=2).kbar == pytest.approx(0.012)


def test_a_slack_budget_costs_almost_nothing() -> None:
    """k at the unconstrained minimum is below the budget: lambda falls to its least, 0.05."""
    budget = 1.5 * drift(TARGET)
    x, (controller,) = descend([(H, budget)])
    assert controller.weight == pytest.approx(0.05)
    assert drift(x) < budget
    np.testing.assert_allclose(x, solution(0.05), atol=1e-6)


def test_of_two_budgets_only_the_tight_one_is_paid_for() -> None:
    tight, loose = 0.1, 10.0
    x, (first, second) = descend([(H, tight), (OTHER, loose)])
    assert abs(drift(x) / tight - 1) < 1e-3
    assert drift(x, OTHER) < loose
    assert second.weight == pytest.approx(0.05)
    assert np.abs(A @ (x - TARGET) + first.weight * H @ x + second.weight * OTHER @ x).max() < 1e-3


def curvature(generator: torch.Generator, size: int) -> torch.Tensor:
    root = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return root @ root.T / size + 0.1 * torch.eye(size)


@pytest.mark.parametrize("wide", [1, 30])
@pytest.mark.parametrize("steps", [50, 500])
@pytest.mark.parametrize("lr", [0.02, 0.05])
@pytest.mark.parametrize("seed", range(4))
def test_with_adam_and_noise_a_run_ends_near_its_budget(wide: float, steps: int, lr: float, seed: int) -> None:
    """As in a training: many directions, a rate that falls to 0, noise in the gradient, and k measured 30 % off either way.

    Measured: 0.93 to 1.26 of the budget.
    """
    size, budget, problem = 20, 0.1, torch.Generator().manual_seed(99)
    a, h = curvature(problem, size), curvature(problem, size)
    target = torch.randn(size, generator=problem, dtype=torch.float64)
    x = torch.zeros(size, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    controller, generator = Controller(), torch.Generator().manual_seed(seed)
    for step in range(steps):
        noise = torch.randn(size + 1, generator=generator, dtype=torch.float64)
        k = 0.5 * x @ h @ x
        loss = 0.5 * (x - target) @ a @ (x - target) + controller.weight * k + 0.2 * noise[:size] @ x
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        measured = float(k.detach()) * math.exp(0.3 * float(noise[size]))
        done = (step + 1) / steps
        controller = controller.updated(measured, budget * width(wide, share_done=done), share_done=done)
    assert 0.7 < drift(x.detach().numpy(), h.numpy()) / budget < 1.3


def test_one_step_by_hand() -> None:
    """k = .06 against .03: kbar = .06, e = clip(1) = 1, I = log 5 + .05, log lambda = I + log 2."""
    first, wanted = Controller().updated(0.06, 0.03, share_done=0.5), pytest.approx(START + 0.05 + math.log(2))
    assert first == Controller(START + 0.05, 0.06, 1, wanted, wanted)
    assert first.step_size == 1
    # Then k = 0: kbar = (.25 * .06) / (.25 + .5) = .02, e = -1/3, and the part ahead is log(2 / 3).
    second = first.updated(0.0, 0.03, share_done=0.6)
    assert second.kbar == pytest.approx(0.02)
    assert second.integral == pytest.approx(START + 0.05 - 0.05 / 3)
    assert second.log_lambda == pytest.approx(second.integral + math.log(2 / 3))


def test_the_integral_only_grows_in_the_first_fifth() -> None:
    assert Controller().updated(0.0, 0.03, share_done=0.2).integral == START
    assert Controller().updated(0.0, 0.03, share_done=0.21).integral == START - 0.05
    assert Controller().updated(0.06, 0.03, share_done=0.1).integral == START + 0.05


def test_a_held_token_pulls_at_most_as_hard_as_the_task() -> None:
    """Loss .15 a token, budget .03 over 5 tokens: at most sqrt(.15 / .006) = 5. Wanted: 10.51, so steps are .69 as long."""
    state = Controller().updated(0.06, 0.03, share_done=0.5, task=0.15, tokens=5)
    assert state.weight == pytest.approx(5)
    assert state.wanted == pytest.approx(START + 0.05 + math.log(2))
    assert state.step_size == pytest.approx(math.sqrt(5 / (10 * math.exp(0.05))))
    # The integral, now above log 5, grows no further, and still falls.
    assert state.updated(0.06, 0.03, share_done=0.5, task=0.15, tokens=5).integral == state.integral
    assert state.updated(0.0, 0.03, share_done=0.5, task=0.15, tokens=5).integral < state.integral
    far = Controller(HIGHEST, 30.0, 9, HIGHEST, HIGHEST).updated(30.0, 0.03, share_done=1.0, task=0.006, tokens=5)
    assert (far.weight, far.step_size) == (pytest.approx(1.0), 0.1)
    assert Controller().updated(0.06, 0.03, share_done=0.5, task=0.0).weight > 10, "nothing known of the task"
    within = Controller().updated(0.029, 0.03, share_done=0.5, task=0.006, tokens=5)
    assert (within.weight, within.step_size) == (pytest.approx(1.0), 1), (
        "within its budget nothing asks for shorter steps"
    )


def descend_with_noise(seed: int, *, bounded: bool) -> tuple[float, float]:
    """Adam at a rate that is too high; the held gradient is mostly noise, as of a few rows. (drift / budget, task's loss)."""
    size, budget, steps, problem = 20, 0.1, 130, torch.Generator().manual_seed(99)
    a, h = curvature(problem, size), curvature(problem, size)
    target = torch.randn(size, generator=problem, dtype=torch.float64)
    x = torch.zeros(size, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=0.5)
    controller, generator = Controller(), torch.Generator().manual_seed(seed)
    for step in range(steps):
        noise = torch.randn(size, generator=generator, dtype=torch.float64)
        k, task = 0.5 * x @ h @ x, 0.5 * (x - target) @ a @ (x - target)
        held = k + 3 * k.detach().sqrt() * noise @ x
        optimizer.zero_grad()
        (task + controller.weight * held).backward()
        optimizer.param_groups[0]["lr"] = 0.5 * (1 - step / steps) * controller.step_size
        optimizer.step()
        done, known = (step + 1) / steps, float(task.detach()) if bounded else 0.0
        now = budget * width(30, share_done=done)
        controller = controller.updated(float(k.detach()), now, share_done=done, task=known)
    return drift(x.detach().numpy(), h.numpy()) / budget, float(task.detach())


@pytest.mark.parametrize("seed", range(3))
def test_a_pull_without_bound_loses_both(seed: int) -> None:
    """Adam's steps do not shrink as lambda grows: they follow the noise, the drift grows, and lambda with it."""
    (drifted, lost), (bounded_drift, bounded_lost) = (descend_with_noise(seed, bounded=how) for how in (False, True))
    assert bounded_drift < 0.5 * drifted
    assert bounded_lost < 0.5 * lost


def test_a_budget_that_narrows() -> None:
    """Ten times as wide: 10 at first, 5.5 halfway to 40 % of the steps, then itself."""
    assert [width(10, share_done=share) for share in (0.0, 0.2, 0.4, 1.0)] == [10, 5.5, 1, 1]
    assert width(1, share_done=0.3) == 1


def test_lambda_stays_within_its_limits() -> None:
    low = high = Controller()
    for _ in range(500):
        low = low.updated(0.0, 0.03, share_done=1.0)
        high = high.updated(9.0, 0.03, share_done=1.0)
    assert (low.integral, low.log_lambda) == (LOWEST, LOWEST)
    assert (high.integral, high.log_lambda) == (HIGHEST, HIGHEST)


@pytest.mark.parametrize(
    ("k", "word"),
    [(0.0, "slack"), (0.0209, "slack"), (0.0211, "bound"), (0.0389, "bound"), (0.0391, "broken"), (0.5, "broken")],
)
def test_standing_is_by_the_drift_alone(k: float, word: str) -> None:
    """Bound: within 30 % of the budget."""
    assert standing(k, 0.03) == word
