"""[002] Slips of the theory and of eq. 7, each shown by a number.

Set-up: float64, small problems, no model except for the share of PA in the loss, which is read off three trainings of
``tiny:aligned`` on the world's guide task (csft_pa's published loss, 60 steps, seeds 0-2). Rules, one per claim:
- eq. 2 with w_t detached is the gradient of the printed loss: holds if the two gradients agree to 1e-9 in all 200 draws;
- the repaired objective -(2/beta) logsigmoid(beta (logp - logp_ref)) has that gradient: the same bar;
- the proof of Theorem 4.1 telescopes: holds if what the change of delta_epoch adds to the sum of differences is below 1e-9;
- the gradient of L_Total is Lipschitz: holds if |g(x + h) - g(x - h)| / 2h across a tie of favourites grows by less than
  10 times from h = 1e-2 to 1e-6;
- liminf |gradient|^2 = 0 means convergence to a stationary point: holds if on separable data, while the squared gradient falls
  more than 10-fold (steps 1,000 to 100,000), the parameter stays (less than 1 % further away);
- PA makes up at most 30 % of the total loss: holds if no logged step of any seed exceeds it; in part if the mean does not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from holdfast.config import TrainConfig
from holdfast.heads import Reference, TokenStats, stats_from_logits
from holdfast.objectives import csft, pa, pa_weight_at
from holdfast.stats import Estimate, student
from holdfast.training import train
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study

NUM_DRAWS, NUM_TOKENS = 200, 6
BETA = 0.5
NUM_EPOCHS = 100
SEEDS = (0, 1, 2)
STEPS_OF_TRAINING = 60
WANT = ("kl", "delta", "top_ref", "logp_ref")
FIRST = torch.zeros(1, dtype=torch.long)


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Closed forms first, then three short trainings."""
    figures: Figures = {
        "gradients": [gradient_errors(seed) for seed in range(NUM_DRAWS)],
        "telescoping": telescoping_remainder(),
        "kink": {str(h): slope_across_tie(h) for h in (1e-2, 1e-4, 1e-6)},
        "separable": separable(),
    }
    shares = []
    for number, seed in enumerate(SEEDS):
        on_progress(0.1 + 0.9 * number / len(SEEDS))
        shares.append(shares_of_pa(seed))
    return {**figures, "shares": shares}


def gradient_errors(seed: int) -> tuple[float, float]:
    """csft's gradient against the printed loss's (w_t differentiated) and the repaired objective's, relative."""
    generator = torch.Generator().manual_seed(seed)
    policy, anchor = 2 * torch.randn(2, 1, NUM_TOKENS, generator=generator, dtype=torch.float64)
    followed, printed, repaired = (
        _slope(policy, anchor, loss)
        for loss in (
            lambda stats: csft(stats, position=FIRST, beta=BETA),
            lambda stats: -2 * torch.sigmoid(-BETA * (stats.logp - stats.need("logp_ref"))) * stats.logp,
            lambda stats: -(2 / BETA) * logsigmoid(BETA * (stats.logp - stats.need("logp_ref"))),
        )
    )
    return tuple(float((each - followed).norm() / followed.norm()) for each in (printed, repaired))  # type: ignore[return-value]


def _slope(policy: Tensor, anchor: Tensor, loss: Callable[[TokenStats], Tensor]) -> Tensor:
    logits = policy.clone().requires_grad_()
    target = torch.zeros(len(policy), dtype=torch.long)
    value = loss(stats_from_logits(logits, target, Reference(logits=anchor), want=WANT)).sum()
    return torch.autograd.grad(value, logits)[0]


def telescoping_remainder() -> float:
    """sum_k (delta_{k+1} - delta_k) L_PA(theta_{k+1}) along gradient descent: what the proof's telescope leaves out."""
    generator = torch.Generator().manual_seed(0)
    logits, anchor = torch.randn(2, 32, NUM_TOKENS, generator=generator, dtype=torch.float64)
    remainder = 0.0
    for epoch in range(NUM_EPOCHS):
        weight, after = (pa_weight_at(each, NUM_EPOCHS) for each in (epoch, epoch + 1))
        logits = logits - 0.5 * _slope(logits, anchor, lambda stats, weight=weight: -stats.logp + weight * pa(stats))  # type: ignore[misc]
        target = torch.zeros(len(logits), dtype=torch.long)
        preference = pa(stats_from_logits(logits, target, Reference(logits=anchor), want=WANT)).mean()
        remainder += (after - weight) * float(preference)
    return remainder


def slope_across_tie(h: float) -> float:
    """How much PA's gradient changes per unit of a logit where the policy's favourite changes; the anchor's is a third."""
    anchor = torch.tensor([[0.0, 0.0, 3.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    tied = torch.tensor([[2.0, 2.0, -1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    move = torch.zeros_like(tied)
    move[0, 0] = h
    before, after = (_slope(tied + sign * move, anchor, pa) for sign in (-1, 1))
    return float((after - before).norm() / (2 * h))


def separable() -> list[dict[str, float]]:
    """Logistic loss of one right answer, steps 10 / k^0.6 (their sum diverges, that of their squares does not)."""
    parameter, found = 0.0, []
    for k in range(1, 100_001):
        if k in (1_000, 10_000, 100_000):
            found.append({"step": k, "parameter": parameter, "gradient_squared": _logistic_slope(parameter) ** 2})
        parameter -= 10 / k**0.6 * _logistic_slope(parameter)
    return found


def _logistic_slope(parameter: float) -> float:
    """The slope of log(1 + e^-x)."""
    return -1 / (1 + math.exp(parameter))


def shares_of_pa(seed: int) -> list[float]:
    """delta_epoch L_PA / L_Total at every logged step of a training."""
    with TemporaryDirectory() as folder:
        config = TrainConfig.model_validate(
            {
                "run": f"{folder}/run",
                "model": {"name": "tiny:aligned", "device": "cpu"},
                "streams": [{"name": "task", "data": "world:safety/tune/guide", "objective": "csft_pa"}],
                "training": {
                    "max_steps": STEPS_OF_TRAINING,
                    "batch_size": 32,
                    "lr": 1e-3,
                    "seed": seed,
                    "log_every": 3,
                },
            }
        )
        train(config, say=lambda _: None, progress=False)
        lines = (Path(folder) / "run" / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [_share(row["streams"]["task"], row["step"] / STEPS_OF_TRAINING) for row in rows]


def _share(logged: dict[str, float], progress: float) -> float:
    return pa_weight_at(progress, 1.0) * (logged["pa_minus_log2"] + math.log(2)) / logged["loss"]


def gradient_of_the_printed_loss(figures: Figures) -> Finding:
    """Judge whether the update is the gradient of the printed loss, as Theorem 4.1 takes for granted."""
    return _agrees([printed for printed, _ in figures["gradients"]], "the printed loss")


def gradient_of_the_repaired_loss(figures: Figures) -> Finding:
    """Judge whether the update is the gradient of the loss that csft does minimise."""
    return _agrees([repaired for _, repaired in figures["gradients"]], "-(2/beta) logsigmoid(beta (logp - logp_ref))")


def _agrees(errors: list[float], of: str) -> Finding:
    worst, median = max(errors), sorted(errors)[len(errors) // 2]
    found = (
        f"csft's update differs from the gradient of {of} by {median:.2g} of its length (median), {worst:.2g} at worst"
    )
    return Finding("holds" if worst < 1e-9 else "does not hold", found, Estimate(median))


def telescopes(figures: Figures) -> Finding:
    """L_PA is never below log 2, so the remainder is at least 0.2 log 2."""
    rest = figures["telescoping"]
    least = 0.2 * math.log(2)
    found = (
        f"raising delta_epoch adds {rest:.4f} to the sum that is telescoped; never less than 0.2 log 2 = {least:.4f}"
    )
    return Finding("holds" if abs(rest) < 1e-9 else "does not hold", found, Estimate(rest))


def lipschitz(figures: Figures) -> Finding:
    """Judge whether the gradient is Lipschitz where two tokens of the anchor are tied."""
    slopes = figures["kink"]
    growth = slopes["1e-06"] / slopes["0.01"]
    found = "change of PA's gradient per unit across a tie: " + ", ".join(
        f"{s:.3g} (h = {h})" for h, s in slopes.items()
    )
    return Finding("holds" if growth < 10 else "does not hold", found, Estimate(growth))


def liminf_is_convergence(figures: Figures) -> Finding:
    """On separable data there is no stationary point to converge to."""
    first, last = figures["separable"][0], figures["separable"][-1]
    falls = last["gradient_squared"] / first["gradient_squared"]
    grows = last["parameter"] / first["parameter"] - 1
    found = (
        f"separable data, steps 1,000 to 100,000: squared gradient times {falls:.2g}, parameter "
        f"{first['parameter']:.2f} -> {last['parameter']:.2f} and no end"
    )
    return Finding("does not hold" if falls < 0.1 and grows > 0.01 else "holds", found, Estimate(grows))


def capped(figures: Figures) -> Finding:
    """Judge whether PA's share of the total loss stays within 0.3 in training."""
    means = student([sum(each) / len(each) for each in figures["shares"]])
    largest = max(max(each) for each in figures["shares"])
    found = f"PA's share of the loss: mean {means.value:.0%}, up to {largest:.0%} (0.3 is the largest coefficient)"
    verdict = "holds" if largest <= 0.3 else "holds in part" if means.value <= 0.3 else "does not hold"
    return Finding(verdict, found, means)  # type: ignore[arg-type]


def _claim(name: str, place: str, text: str, printed: str, judge: Callable[[Figures], Finding], **more: Any) -> Claim:
    more = {"erratum": True, **more}
    return Claim(id=f"002-{name}", place=place, text=text, printed=printed, judge=judge, **more)


STUDY = Study(
    id="002-errata",
    paper="002",
    title="Slips of the theory, each shown by a number",
    claims=(
        _claim(
            "eq-2-gradient",
            "eq. 2, A.2.3",
            "with w_t detached, the update is the gradient of the loss as printed",
            "taken for granted in Theorem 4.1",
            gradient_of_the_printed_loss,
        ),
        _claim(
            "eq-2-repaired",
            "erratum to eq. 2",
            "it is the gradient of -(2/beta) logsigmoid(beta (logp - logp_ref))",
            "not in the paper",
            gradient_of_the_repaired_loss,
            erratum=False,
        ),
        _claim(
            "telescoping",
            "A.1.5",
            "the losses' differences telescope although delta_epoch rises on the way",
            "the left side telescopes",
            telescopes,
        ),
        _claim(
            "lipschitz",
            "4.1, assumption 1",
            "the gradient of the total loss is Lipschitz, PA included",
            "assumed",
            lipschitz,
        ),
        _claim(
            "liminf",
            "Theorem 4.1",
            "liminf of the squared gradient 0 means that the algorithm converges to a stationary point",
            "'That is, the algorithm converges'",
            liminf_is_convergence,
            rule="changed",
        ),
        _claim("cap-30", "3.2", "PA's part is capped at 30 % of the total loss", "30 %", capped, about="experiments"),
    ),
    run=run,
    seconds={"cpu": 40},
    about="mathematics",
    model="softmax problems",
)
