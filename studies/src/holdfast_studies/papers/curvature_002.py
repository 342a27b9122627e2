"""[002] A.2: does the preference loss add curvature, and which part of its gradient is the larger?

Set-up: float64, random policy and anchor logits over 6 tokens whose argmaxes differ (elsewhere PA is constant). Measured, draw by
draw: the eigenvalues of PA's Hessian in the logits; the smallest curvature of a regularised softmax regression at its minimum
(along directions that change probabilities) without and with 0.3 PA, as printed and with the argmax softened (temperature 0.5,
A.2.3); |delta grad mu| over |mu grad delta| where mu is in its upper quarter. Rules: 'adds positive definite terms' holds if no
Hessian has a negative eigenvalue; 'increases mu' holds if the smallest curvature rises in at least 95 % of the problems, in part
from 50 %; 'dominates' holds if the median ratio exceeds 2, in part if it exceeds 1.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.heads import Reference, stats_from_logits
from holdfast.objectives import pa
from holdfast.stats import Estimate
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study

NUM_TOKENS = 6
NUM_DRAWS = 200
NUM_PROBLEMS = 60
PA_WEIGHT = 0.3
SOFTEN = 0.5
TARGET = torch.zeros(1, dtype=torch.long)


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Hessians of single tokens, then whole problems."""
    pairs = [pair for pair in map(random_logits, range(2 * NUM_DRAWS)) if pair[0].argmax() != pair[1].argmax()][
        :NUM_DRAWS
    ]
    spectra = [extremes(policy, anchor) for policy, anchor in pairs]
    parts = [gradient_parts(policy, anchor) for policy, anchor in pairs]
    on_progress(0.5)
    curvatures = []  # without PA, with it, with it softened
    for seed in range(NUM_PROBLEMS):
        ways = ((0.0, None), (PA_WEIGHT, None), (PA_WEIGHT, SOFTEN))
        curvatures.append([smallest_curvature(seed, weight, soften) for weight, soften in ways])
        on_progress(0.5 + 0.5 * (seed + 1) / NUM_PROBLEMS)
    return {"spectra": _rounded(spectra), "parts": _rounded(parts), "curvatures": _rounded(curvatures)}


def _rounded(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """To six digits: the file is committed."""
    return [[float(f"{value:.6g}") for value in row] for row in rows]


def random_logits(seed: int) -> tuple[Tensor, Tensor]:
    """Policy and anchor."""
    generator = torch.Generator().manual_seed(seed)
    policy, anchor = 2 * torch.randn(2, NUM_TOKENS, generator=generator, dtype=torch.float64)
    return policy, anchor


def pa_of(policy: Tensor, anchor: Tensor) -> Tensor:
    """The loss of one token, by the objective that training uses."""
    stats = stats_from_logits(policy[None], TARGET, Reference(logits=anchor[None]), want=("kl", "delta", "top_ref"))
    return pa(stats)[0]


def extremes(policy: Tensor, anchor: Tensor) -> tuple[float, float]:
    """Smallest and largest eigenvalue of PA's Hessian."""
    hessian = torch.autograd.functional.hessian(lambda logits: pa_of(logits, anchor), policy)
    values = torch.linalg.eigvalsh(hessian)
    return float(values[0]), float(values[-1])


def gradient_parts(policy: Tensor, anchor: Tensor) -> tuple[float, float, float]:
    """(mu, |delta grad mu|, |mu grad delta|)."""
    logits = policy.clone().requires_grad_()
    stats = stats_from_logits(logits[None], TARGET, Reference(logits=anchor[None]), want=("kl", "delta", "top_ref"))
    kl, delta = stats.need("kl")[0], stats.need("delta")[0]
    of_kl, of_delta = (torch.autograd.grad(each, logits, retain_graph=True)[0] for each in (kl, delta))
    return float(kl.detach()), float((delta * of_kl).norm().detach()), float((kl * of_delta).norm().detach())


def smallest_curvature(seed: int, pa_weight: float, soften: float | None) -> float:
    """Of a softmax regression with weight decay at the minimum that gradient descent reaches from the anchor's weights."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(24, 3, generator=generator, dtype=torch.float64)
    labels = torch.randint(NUM_TOKENS, (24,), generator=generator)
    anchor = torch.randn(3, NUM_TOKENS, generator=generator, dtype=torch.float64)

    def loss(weights: Tensor) -> Tensor:
        logits = inputs @ weights
        want = ("kl", "delta", "top_ref")
        stats = stats_from_logits(logits, labels, Reference(logits=inputs @ anchor), soften=soften, want=want)
        return (-stats.logp + pa_weight * pa(stats)).mean() + 0.01 * weights.square().sum()

    weights = anchor.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe", tolerance_grad=1e-10)

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(weights)
        value.backward()
        return value

    optimizer.step(closure)
    hessian = torch.autograd.functional.hessian(loss, weights.detach())
    # Adding the same to every token's logit changes nothing: along those directions there is only the decay, with PA or without.
    across = torch.linalg.qr(torch.eye(NUM_TOKENS, dtype=torch.float64) - 1 / NUM_TOKENS).Q[:, :-1]
    seen = torch.einsum("iajb,ap,bq->ipjq", hessian, across, across)
    return float(torch.linalg.eigvalsh(seen.reshape(3 * (NUM_TOKENS - 1), -1))[0])


def positive_definite(figures: Figures) -> Finding:
    """Of the Hessians."""
    indefinite = sum(low < -1e-12 < 1e-12 < high for low, high in figures["spectra"])
    negative = sum(low < -1e-12 for low, _ in figures["spectra"])
    found = f"indefinite in {indefinite} of {len(figures['spectra'])} draws"
    return Finding("does not hold" if negative else "holds", found, Estimate(indefinite / len(figures["spectra"])))


def increases_mu(figures: Figures) -> Finding:
    """With PA as printed."""
    return _rises(figures, 1)


def increases_mu_softened(figures: Figures) -> Finding:
    """With the argmax softened."""
    return _rises(figures, 2)


def _rises(figures: Figures, way: int) -> Finding:
    share = sum(row[way] > row[0] for row in figures["curvatures"]) / len(figures["curvatures"])
    found = f"the smallest curvature rose in {share:.0%} of {len(figures['curvatures'])} softmax regressions"
    return Finding(
        "holds" if share >= 0.95 else "holds in part" if share >= 0.5 else "does not hold", found, Estimate(share)
    )


def dominates(figures: Figures) -> Finding:
    """Where mu is large."""
    bar = statistics.quantiles([mu for mu, _, _ in figures["parts"]], n=4)[2]
    ratios = [of_mu / of_delta for mu, of_mu, of_delta in figures["parts"] if mu >= bar]
    median = statistics.median(ratios)
    found = f"median |delta grad mu| / |mu grad delta| {median:.2f} where mu >= {bar:.2g} ({len(ratios)} draws)"
    return Finding(
        "holds" if median > 2 else "holds in part" if median > 1 else "does not hold", found, Estimate(median)
    )


STUDY = Study(
    id="002-pa-curvature",
    paper="002",
    title="Curvature and gradient of the preference loss",
    claims=(
        Claim(
            id="002-pa-positive-definite",
            place="A.2.5",
            text="the preference loss contributes positive definite terms to the Hessian",
            printed="stated",
            judge=positive_definite,
            erratum=True,
        ),
        Claim(
            id="002-pa-increases-mu",
            place="4.2, A.2.5",
            text="adding the preference loss raises the smallest curvature (the PL constant)",
            printed="stated",
            judge=increases_mu,
        ),
        Claim(
            id="002-pa-increases-mu-softened",
            place="4.2, A.2.3, A.2.5",
            text="the same with the argmax softened",
            printed="stated",
            judge=increases_mu_softened,
        ),
        Claim(
            id="002-pa-dominance",
            place="A.2.4",
            text="where the divergence mu is large, the term delta grad mu dominates the gradient",
            printed="stated",
            judge=dominates,
            erratum=True,
        ),
    ),
    run=run,
    seconds={"cpu": 30},
)
