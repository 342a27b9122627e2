"""[002] A.1.3's bound on PA's gradient, the expectation in it, assumption 7, and what eq. 3 can reach.

Set-up: float64, linear softmax models over 6 tokens and 3 inputs, policy and anchor drawn at random; 200 draws whose favourites
differ. Measured: |grad log sigmoid(mu delta)| in the weights over 2 K G + D G B with each draw's own constants; the gradient of
mu against its printed form, an expectation over the data's tokens, and against the same over the policy's own tokens; eq. 3's
preference of the anchor's token over the policy's favourite. Assumption 7 (every probability at least epsilon, 'enforced via
logit clipping or label smoothing'): a softmax regression fitted to separable rows, with labels smoothed by 0.1 (epsilon: 0.1 /
6) and with logits clipped at 5 (epsilon: 1 / (1 + 5 e^10)); the least probability on 1,000 inputs, fresh ones and ten times as
large.
Rules: the bound holds if it is never exceeded; the printed expectation holds if it is the gradient to 1e-9; assumption 7 holds
if both ways keep every probability above their epsilon, in part if one does; 'we want the anchor's token to be the likelier'
(3.2) can be met if eq. 3 exceeds one half in some draw. Written on 2026-11-16 before its first run.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.heads import Reference, TokenStats, stats_from_logits
from holdfast.stats import Estimate
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study, verdict_of

NUM_TOKENS, NUM_INPUTS, NUM_DRAWS = 6, 3, 200
SMOOTHING, CLIP = 0.1, 5.0
NUM_ROWS, NUM_STEPS, NUM_ASKED = 60, 2000, 1000
EXACT = 1e-9
TARGET = torch.zeros(1, dtype=torch.long)


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Draw models and measure PA on each; then fit the regressions for assumption 7."""
    draws = [draw for draw in (measure(seed) for seed in range(3 * NUM_DRAWS)) if draw is not None][:NUM_DRAWS]
    on_progress(0.5)
    return {"draws": draws, "least": {way: least_probability(way) for way in ("plain", "smoothed", "clipped")}}


def _stats(logits: Tensor, anchor: Tensor) -> TokenStats:
    return stats_from_logits(logits, TARGET, Reference(logits=anchor), want=("kl", "delta", "top_ref"))


def measure(seed: int) -> dict[str, float] | None:
    """One draw; None if policy and anchor have the same favourite, where PA has no gradient."""
    generator = torch.Generator().manual_seed(seed)
    weights, others = torch.randn(2, NUM_INPUTS, NUM_TOKENS, generator=generator, dtype=torch.float64)
    inputs = torch.randn(1, NUM_INPUTS, generator=generator, dtype=torch.float64)
    label = int(torch.randint(NUM_TOKENS, (1,), generator=generator))
    weights, anchor = weights.requires_grad_(), inputs @ others
    stats = _stats(inputs @ weights, anchor)
    kl, delta = stats.need("kl")[0], stats.need("delta")[0]
    if float(delta.detach()) == 0:
        return None
    logp, logq = (inputs @ weights).log_softmax(-1)[0], anchor.log_softmax(-1)[0]
    scores = [torch.autograd.grad(each, weights, retain_graph=True)[0] for each in logp]
    of_kl = torch.autograd.grad(kl, weights, retain_graph=True)[0]
    of_pa = torch.autograd.grad(torch.nn.functional.logsigmoid(kl * delta), weights)[0]
    gap = (logp - logq).detach()
    largest = max(float(score.norm()) for score in scores)  # G
    bound = largest * (2 * float(kl.detach()) + abs(float(delta.detach())) * float(gap.abs().max()))  # 2 K G + D G B
    by_policy = sum((p * g * score for p, g, score in zip(logp.detach().exp(), gap, scores, strict=True)), 0 * of_kl)
    return {
        "of_bound": float(of_pa.norm()) / bound,
        "over_data": float((gap[label] * scores[label] - of_kl).norm() / of_kl.norm()),
        "over_policy": float((by_policy - of_kl).norm() / of_kl.norm()),
        "preference": float(torch.sigmoid(delta.detach())),
    }


def least_probability(way: str) -> float:
    """The least probability of any token after fitting, over the epsilon that the way promises (plain: label smoothing's)."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(NUM_ROWS, NUM_INPUTS, generator=generator, dtype=torch.float64)
    labels = (inputs @ torch.randn(NUM_INPUTS, NUM_TOKENS, generator=generator, dtype=torch.float64)).argmax(-1)
    weights = torch.zeros(NUM_INPUTS, NUM_TOKENS, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.05)
    smoothing = SMOOTHING if way == "smoothed" else 0.0
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(_logits(inputs, weights, way), labels, label_smoothing=smoothing)
        loss.backward()
        optimizer.step()
    asked = torch.randn(NUM_ASKED, NUM_INPUTS, generator=generator, dtype=torch.float64)
    asked[NUM_ASKED // 2 :] *= 10
    least = float(_logits(asked, weights.detach(), way).log_softmax(-1).min())
    promised = (
        -math.log(1 + (NUM_TOKENS - 1) * math.exp(2 * CLIP)) if way == "clipped" else math.log(SMOOTHING / NUM_TOKENS)
    )
    return math.exp(least - promised)


def _logits(inputs: Tensor, weights: Tensor, way: str) -> Tensor:
    logits = inputs @ weights
    return logits.clamp(-CLIP, CLIP) if way == "clipped" else logits


# --- rules ----------------------------------------------------------------------------------------------------------


def bounded(figures: Figures) -> Finding:
    """Judge whether PA's gradient never exceeds 2 K G + D G B."""
    shares = [draw["of_bound"] for draw in figures["draws"]]
    worst = max(shares)
    found = (
        f"PA's gradient is at most {worst:.2f} of 2 K G + D G B over {len(shares)} draws, each with its own constants"
    )
    return Finding("holds" if worst <= 1 else "does not hold", found, Estimate(worst, n=len(shares)))


def over_the_data(figures: Figures) -> Finding:
    """Judge whether the gradient of mu is an expectation over the data's tokens; the policy's own tokens are compared too."""
    data, policy = ([draw[name] for draw in figures["draws"]] for name in ("over_data", "over_policy"))
    middle = sorted(data)[len(data) // 2]
    found = (
        f"over the data's tokens it is off the gradient of mu by {middle:.1f} of its length (median), over the policy's own by at"
        f" most {max(policy):.0e}"
    )
    return Finding("holds" if max(data) <= EXACT else "does not hold", found, Estimate(middle, n=len(data)))


def assumption_7(figures: Figures) -> Finding:
    """Judge whether clipping and smoothing keep every probability above the promised epsilon."""
    least = figures["least"]
    kept = {way: least[way] >= 1 - EXACT for way in ("clipped", "smoothed")}
    found = "least probability over the promised epsilon: " + ", ".join(
        f"{way} {value:.1e}" for way, value in least.items()
    )
    verdict = verdict_of(kept.values())
    return Finding(
        verdict, f"{found}; smoothing changes the targets, not what the model may say", Estimate(least["smoothed"])
    )


def preferred(figures: Figures) -> Finding:
    """Judge whether eq. 3 can prefer the anchor's token to the policy's favourite."""
    largest = max(draw["preference"] for draw in figures["draws"])
    found = f"eq. 3 is at most {largest:.3f} over {len(figures['draws'])} draws: no token is likelier than the policy's favourite"
    return Finding("holds" if largest > 0.5 else "does not hold", found, Estimate(largest, n=len(figures["draws"])))


STUDY = Study(
    id="002-bounds",
    paper="002",
    title="A.1.3's bound, its expectation, assumption 7, and what eq. 3 can reach",
    claims=(
        Claim(
            id="002-pa-gradient-bound",
            place="A.1.3",
            text="PA's gradient is bounded by 2 K G + D G B for each token",
            printed="C = T_max (2 K G + D G B)",
            judge=bounded,
        ),
        Claim(
            id="002-kl-gradient-expectation",
            place="A.1.3, A.2.4",
            text="the gradient of mu_t is an expectation over the data (x, y) ~ D",
            printed="E_(x, y)~D [grad log p(y) (log p(y) - log q(y))]",
            judge=over_the_data,
            erratum=True,
        ),
        Claim(
            id="002-assumption-7",
            place="4.1, A.1.2 (7)",
            text="a lower bound on every probability can be enforced by logit clipping or by label smoothing",
            printed="'can be enforced via logit clipping or label smoothing'",
            judge=assumption_7,
        ),
        Claim(
            id="002-preference-half",
            place="3.2, eq. 3; A.2.3",
            text="the anchor's token can be given a higher probability than the policy's own favourite",
            printed="'we want the probability ... to be higher'; the two are argmaxes",
            judge=preferred,
            erratum=True,
        ),
    ),
    run=run,
    seconds={"cpu": 10},
    about="mathematics",
    model="softmax problems",
)
