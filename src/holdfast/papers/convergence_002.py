"""[002] Theorem 4.1: gradient norms along SGD with steps 1/k, on a problem small enough to know the whole gradient.

Set-up: softmax regression on 64 rows over 6 tokens, the anchor a random regression; csft + 0.2 pa as training computes it
(weights detached), batches of 8; steps 4 / (k + 20): their sum diverges, that of their squares does not. 5 seeds, 20,000 steps.
Measured: the squared norm of the whole update direction (what the code follows), and of the gradient of the printed loss with
its weights differentiated. Rules: 'liminf = 0' holds if the smallest squared norm of the last tenth is below 1e-3 of the first;
'a stationary point of the printed loss' holds if the printed loss's gradient shrinks as far, too.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from holdfast.heads import Reference, TokenStats, stats_from_logits
from holdfast.objectives import csft_pa
from holdfast.papers.spread import above, below, over_seeds
from holdfast.papers.study import Claim, Figures, Finding, OnProgress, Scale, Study

NUM_SEEDS = 5
NUM_STEPS = 20_000
MEASURE_EVERY = 200
BETA = 0.5
PA_WEIGHT = 0.2
WANT = ("kl", "delta", "top_ref", "logp_ref")


class Problem:
    """Rows, labels and an anchor, by seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.inputs = torch.randn(64, 4, generator=self.generator, dtype=torch.float64)
        self.labels = torch.randint(6, (64,), generator=self.generator)
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


def run(scale: Scale, on_progress: OnProgress) -> Figures:
    """Squared gradient norms along training, seed by seed."""
    curves = []
    for seed in range(NUM_SEEDS):
        curves.append(descend(seed))
        on_progress((seed + 1) / NUM_SEEDS)
    return {"curves": curves}


def descend(seed: int) -> dict[str, list[float]]:
    """SGD from the anchor's own weights."""
    problem = Problem(seed)
    everything = torch.arange(64)
    weights = problem.anchor.clone().requires_grad_()
    curve: dict[str, list[float]] = {"followed": [], "printed": []}
    for step in range(NUM_STEPS):
        if step % MEASURE_EVERY == 0:
            for name, values in curve.items():
                (gradient,) = torch.autograd.grad(getattr(problem, name)(weights, everything), weights)
                values.append(float(gradient.square().sum()))
        rows = torch.randint(64, (8,), generator=problem.generator)
        (gradient,) = torch.autograd.grad(problem.followed(weights, rows), weights)
        weights = (weights - 4 / (step + 20) * gradient).detach().requires_grad_()
    return curve


def followed_vanishes(figures: Figures) -> Finding:
    """The direction that the code follows."""
    return _shrinks(figures, "followed")


def printed_vanishes(figures: Figures) -> Finding:
    """The gradient of the loss as printed."""
    return _shrinks(figures, "printed")


def _shrinks(figures: Figures, name: str) -> Finding:
    shares = []
    for curve in figures["curves"]:
        values = curve[name]
        shares.append(min(values[-len(values) // 10 :]) / values[0])
    measured = over_seeds(shares)
    each = ", ".join(f"{share:.1g}" for share in shares)
    found = f"smallest squared norm at the end over the first: mean {measured.value:.2g} (seeds: {each})"
    if below(measured, 1e-3):
        return Finding("holds", found, measured)
    return Finding("does not hold" if above(measured, 1e-3) else "holds in part", found, measured)


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
    seconds={"cpu": 90},
)
