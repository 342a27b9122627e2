"""[002] Theorem 4.2: how far the minimiser moves when the data do, on problems whose minimisers can be computed.

Set-up: quadratics with eigenvalues spread between mu = 0.1 and L = 10 (the gradient moves by exactly eps * xi, so G = 1), and
softmax regressions with weight decay, inputs perturbed by at most eps. Measured: the distance of the two minimisers over
eps G / L (the printed bound) and over eps G / mu (the bound with the growth constant). Rule: a bound holds if no draw exceeds
it by more than rounding. Uniqueness: x1^2 on the plane is convex and satisfies the PL inequality; its minimisers are a line.
"""

from __future__ import annotations

import torch

from holdfast.stats import Estimate
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study

MU, L = 0.1, 10.0
EPS = 1e-3
NUM_DRAWS = 200
SIZE = 8
ROUNDING = 1e-6


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """The ratio of distance to each bound, draw by draw."""
    quadratic = [quadratic_ratios(seed) for seed in range(NUM_DRAWS)]
    on_progress(0.3)
    softmax = []
    for seed in range(NUM_DRAWS // 4):
        softmax.append(softmax_ratios(seed))
        on_progress(0.3 + 0.7 * (seed + 1) / (NUM_DRAWS // 4))
    return {"quadratic": quadratic, "softmax": softmax, "flat_line": pl_without_uniqueness()}


def quadratic_ratios(seed: int) -> tuple[float, float]:
    """(distance / (eps G / L), distance / (eps G / mu)) for 1/2 x'Ax - b'x with b moved by eps in a random direction."""
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(SIZE, SIZE, generator=generator, dtype=torch.float64)).Q
    matrix = basis @ torch.diag(torch.logspace(-1, 1, SIZE, dtype=torch.float64)) @ basis.T
    direction = torch.randn(SIZE, generator=generator, dtype=torch.float64)
    moved = torch.linalg.solve(matrix, EPS * direction / direction.norm()).norm()
    return float(moved / (EPS / L)), float(moved / (EPS / MU))


def softmax_ratios(seed: int) -> tuple[float, float]:
    """The same for 3-class softmax regression with weight decay; G, mu and L are those of this problem."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(40, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(3, (40,), generator=generator)
    noise = torch.randn(40, 4, generator=generator, dtype=torch.float64)
    noisy = inputs + EPS * noise / noise.norm(dim=1, keepdim=True)
    before, after = minimiser(inputs, labels), minimiser(noisy, labels)
    curvature = torch.linalg.eigvalsh(_hessian(before, inputs))
    # At the new minimiser the old gradient is exactly the perturbation of the gradient there: the smallest G that is admissible.
    perturbation = _gradient(after, inputs, labels).norm()
    distance = (after - before).norm()
    return float(distance / (perturbation / curvature[-1])), float(distance / (perturbation / curvature[0]))


def minimiser(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The minimiser, by Newton's method to float64 precision."""
    weights = torch.zeros(inputs.shape[1] * 3, dtype=torch.float64)
    gradient = _gradient(weights, inputs, labels)
    while gradient.norm() > 1e-14:
        weights = weights - torch.linalg.solve(_hessian(weights, inputs), gradient)
        gradient = _gradient(weights, inputs, labels)
    return weights


DECAY = 0.02


def _gradient(weights: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The gradient of mean cross-entropy + DECAY / 2 |weights|^2."""
    excess = (inputs @ weights.view(-1, 3)).softmax(1) - torch.nn.functional.one_hot(labels, 3)
    return (inputs.T @ excess / len(inputs)).flatten() + DECAY * weights


def _hessian(weights: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """Its derivative: the mean of x x' (x) (diag p - p p'), and the decay."""
    p = (inputs @ weights.view(-1, 3)).softmax(1)
    spread = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    curvature = torch.einsum("nf,ng,ncd->fcgd", inputs, inputs, spread) / len(inputs)
    return curvature.reshape(len(weights), -1) + DECAY * torch.eye(len(weights), dtype=weights.dtype)


def pl_without_uniqueness() -> dict[str, float]:
    """f(x) = x1^2: PL with mu = 2 (|f'|^2 / 2 = 2 f), and (0, 0) and (0, 1) both minimise it."""
    points = torch.randn(100, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    value, half_squared_gradient = points[:, 0] ** 2, (2 * points[:, 0]) ** 2 / 2
    return {"pl_constant": float((half_squared_gradient / value).min()), "distance_of_two_minimisers": 1.0}


def printed_bound(figures: Figures) -> Finding:
    """Judge the printed bound, eps G / L."""
    worst, share = _worst(figures, 0)
    found = f"exceeded in {share:.0%} of draws, at worst by a factor of {worst:.3g}"
    return Finding("holds" if worst <= 1 + ROUNDING else "does not hold", found, Estimate(worst, n=_num(figures)))


def growth_bound(figures: Figures) -> Finding:
    """Judge the bound with a growth constant, eps G / mu."""
    worst, _ = _worst(figures, 1)
    slack = 1.05  # the curvature of softmax regression is taken at one point and the two minimisers are not quite there
    found = f"distance at most {worst:.3g} of eps G / mu over {_num(figures)} draws"
    return Finding("holds" if worst <= slack else "does not hold", found, Estimate(worst, n=_num(figures)))


def uniqueness(figures: Figures) -> Finding:
    """Judge whether convexity and the PL inequality make the minimiser unique. A counterexample settles it."""
    flat = figures["flat_line"]
    constant, apart = flat["pl_constant"], flat["distance_of_two_minimisers"]
    found = f"x1^2 on the plane: PL constant {constant:.3g}, two minimisers {apart:.3g} apart"
    return Finding("holds" if constant <= 0 or apart == 0 else "does not hold", found, Estimate(apart))


def _worst(figures: Figures, which: int) -> tuple[float, float]:
    ratios = [pair[which] for pair in [*figures["quadratic"], *figures["softmax"]]]
    return max(ratios), sum(ratio > 1 + ROUNDING for ratio in ratios) / len(ratios)


def _num(figures: Figures) -> int:
    return len(figures["quadratic"]) + len(figures["softmax"])


STUDY = Study(
    id="002-theorem-4-2",
    paper="002",
    title="Robustness: how far the minimiser moves",
    claims=(
        Claim(
            id="002-theorem-4-2",
            place="Theorem 4.2, A.2",
            text="when data noise moves the gradient by at most eps G, the minimiser moves by at most eps G / L",
            printed="eps G / L",
            judge=printed_bound,
            erratum=True,
        ),
        Claim(
            id="002-theorem-4-2-growth",
            place="erratum to Theorem 4.2",
            text="with a growth constant mu the minimiser moves by at most eps G / mu (weaker, as mu <= L)",
            printed="not in the paper",
            judge=growth_bound,
        ),
        Claim(
            id="002-uniqueness",
            place="A.2.5",
            text="the PL inequality and convexity make the minimiser unique",
            printed="stated",
            judge=uniqueness,
            erratum=True,
        ),
    ),
    run=run,
    seconds={"cpu": 5},
    about="mathematics",
    rule="after",
    model="softmax problems",
)
