"""[002] Theorem 4.1: gradient norms along SGD with steps 1/k, on a problem small enough to know the whole gradient.

Set-up: softmax regression on 64 rows over 6 tokens, the anchor a random regression; csft + 0.2 pa as training computes it
(weights detached); 5 seeds, two ways that the theorem allows: batches of 8 with steps 4 / (k + 20), 20,000 of them; all rows
(no noise) with steps (20 / (k + 20))^0.6 / 2, 10,000 of them. Both sums diverge, those of the squares do not.
Measured: the squared norm of the whole update direction (what the code follows), and of the gradient of the printed loss with
its weights differentiated. Rules, on the run without noise: 'liminf = 0' holds if the smallest squared norm of the last tenth is
below 1e-3 of the first, in part if the interval contains that bar; 'a stationary point of the printed loss' holds if the printed
loss's gradient shrinks as far, too. The noisy run is reported beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from holdfast.heads import Reference, TokenStats, stats_from_logits
from holdfast.objectives import csft_pa
from holdfast.stats import student
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study

NUM_SEEDS = 5
NUM_ROWS = 64
MEASURE_EVERY = 200
BETA = 0.5
PA_WEIGHT = 0.2
WANT = ("kl", "delta", "top_ref", "logp_ref")


class Problem:
    """Rows, labels and an anchor, by seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.inputs = torch.randn(NUM_ROWS, 4, generator=self.generator, dtype=torch.float64)
        self.labels = torch.randint(6, (NUM_ROWS,), generator=self.generator)
        self.anchor = torch.randn(4, 6, generator=self.generator, dtype=torch.float64)

    def followed(self, weights: Tensor, rows: Tensor) -> Tensor:
        """csft + pa as it is trained: csft's weight is a constant of the step."""
        stats = self._stats(weights, rows)
        position = torch.zeros(len(rows), dtype=torch.long)
        return csft_pa(stats, position=position, beta=BETA, pa_weight=PA_WEIGHT).mean() + decay(weights)

    def printed(self, weights: Tensor, rows: Tensor) -> Tensor:
        """The same value, but w_t is differentiated like everything else in eq. 1."""
        stats = self._stats(weights, rows)
        weight = 2 * torch.sigmoid(-BETA * (stats.logp - stats.need("logp_ref")))
        preference = -logsigmoid(stats.need("kl") * stats.need("delta"))
        return (-weight * stats.logp + PA_WEIGHT * preference).mean() + decay(weights)

    def _stats(self, weights: Tensor, rows: Tensor) -> TokenStats:
        inputs = self.inputs[rows]
        return stats_from_logits(inputs @ weights, self.labels[rows], Reference(logits=inputs @ self.anchor), want=WANT)


def decay(weights: Tensor) -> Tensor:
    """Keeps the minimum finite: 64 rows over 6 tokens can be separable."""
    return 0.005 * weights.square().sum()


class Way(NamedTuple):
    """How to descend: rows of a step, how many steps, and their sizes."""

    batch: int
    num_steps: int
    step: Callable[[int], float]


WAYS = {
    "noisy": Way(8, 20_000, lambda k: 4 / (k + 20)),
    "whole": Way(NUM_ROWS, 10_000, lambda k: 0.5 * (20 / (k + 20)) ** 0.6),
}


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Squared gradient norms along training, seed by seed."""
    curves: dict[str, list[dict[str, list[float]]]] = {name: [] for name in WAYS}
    for seed in range(NUM_SEEDS):
        for name, way in WAYS.items():
            curves[name].append(descend(seed, way))
        on_progress((seed + 1) / NUM_SEEDS)
    return {"curves": curves}


def descend(seed: int, way: Way) -> dict[str, list[float]]:
    """Train from the anchor's own weights."""
    problem = Problem(seed)
    everything = torch.arange(NUM_ROWS)
    weights = problem.anchor.clone().requires_grad_()
    curve: dict[str, list[float]] = {"followed": [], "printed": []}
    for k in range(way.num_steps):
        if k % MEASURE_EVERY == 0:
            for name, values in curve.items():
                (gradient,) = torch.autograd.grad(getattr(problem, name)(weights, everything), weights)
                values.append(float(f"{gradient.square().sum():.4g}"))
        drawn = torch.randint(NUM_ROWS, (way.batch,), generator=problem.generator)
        rows = drawn if way.batch < NUM_ROWS else everything
        (gradient,) = torch.autograd.grad(problem.followed(weights, rows), weights)
        weights = (weights - way.step(k) * gradient).detach().requires_grad_()
    return curve


def followed_vanishes(figures: Figures) -> Finding:
    """Judge whether the update that the code follows vanishes."""
    return _shrinks(figures, "followed")


def printed_vanishes(figures: Figures) -> Finding:
    """Judge whether the gradient of the loss as printed vanishes."""
    return _shrinks(figures, "printed")


def _shrinks(figures: Figures, name: str) -> Finding:
    ends = {way: student([_end(curve[name]) for curve in curves]) for way, curves in figures["curves"].items()}
    whole = ends["whole"]
    found = "smallest squared norm at the end over the first: " + ", ".join(
        f"{end.value:.2g} ({'batches of 8' if way == 'noisy' else 'all rows'})" for way, end in ends.items()
    )
    if whole.below(1e-3):
        return Finding("holds", found, whole)
    return Finding("does not hold" if whole.above(1e-3) else "holds in part", found, whole)


def _end(values: list[float]) -> float:
    """The least of the last tenth, divided by the first value."""
    return min(values[-len(values) // 10 :]) / values[0]


STUDY = Study(
    id="002-theorem-4-1",
    paper="002",
    title="Convergence: gradient norms along SGD with decreasing steps",
    claims=(
        Claim(
            id="002-theorem-4-1",
            place="Theorem 4.1",
            text="SGD with Robbins-Monro steps brings the squared gradient arbitrarily near 0 (for the update that is followed)",
            printed="liminf = 0",
            judge=followed_vanishes,
        ),
        Claim(
            id="002-theorem-4-1-printed-loss",
            place="Theorem 4.1 with eq. 1-2",
            text="the point it reaches is stationary for the total loss as printed (weights w_t differentiated)",
            printed="'converges to a stationary point of L_Total'",
            judge=printed_vanishes,
            erratum=True,
        ),
    ),
    run=run,
    seconds={"cpu": 120},
    about="mathematics",
    rule="changed",
    model="softmax problems",
)
