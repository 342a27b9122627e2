"""[000] The linearised sketch behind part (c), step by step: plain gradient descent on both objectives in float64.

Set-up: ``tiny:aligned`` with ``<UNDO>``; 32 training traces of the embedded world with one wrong word each (three draws: seeds
0, 1, 2); full-batch descent on sft and on masked_sft from the same start, 200 steps; the step size is such that to first order
one step of the error term alone raises the mean log-likelihood of an error by 0.02 nats; v = v_error at the start. Measured every
20 steps: the projection of the movement on v in units of one such step, |theta_SFT - theta_mSFT - eta T v| / |eta T v|, and the
mean log p(error | prefix). Rules: 'diverge by T v_error' holds if that distance is at most 0.1 at every measurement of every
seed, in part if at the first. 'Linear growth' holds if sft's projection gains in the second half between 0.8 and 1.25 of what it
gained in the first, in part between 0.5 and 2. 'Constant' holds if masked_sft's projection stays within 5 % of sft's. 'Monotonic'
holds if along both paths log p(error) ranks as the projection does (Kendall's tau above 0.9 for every seed), in part along one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from scipy.stats import kendalltau
from torch import Tensor

from holdfast import objectives
from holdfast.records import Role
from holdfast.stats import Estimate, student
from holdfast.tokens import TokenRow, tokenize_all
from holdfast_studies.papers.backtracking import embedded, flat_gradient, in_float64, parameters_of
from holdfast_studies.papers.study import Claim, ClaimVerdict, Figures, Finding, Machine, OnProgress, Study, verdict_of
from holdfast_studies.undo.safety_gap_identity import norms_in_double, statistics_of
from holdfast_studies.undo.safety_gap_task import GapTask

ID = "000-linear-growth"
SEEDS = (0, 1, 2)
NUM_STEPS, EVERY, NUM_TRACES = 200, 20, 32
GAIN = 0.02  # nats a step


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """The path of either objective, seed by seed."""
    task = GapTask(embedded(ID, num_train=NUM_TRACES))
    paths = []
    for number, seed in enumerate(SEEDS):
        loaded = in_float64(task.config.model)
        rows, _ = tokenize_all(task.training_traces(seed, loaded).traces, loaded.tokenizer)
        with norms_in_double(loaded.model):
            paths.append(two_paths(loaded.model, rows))
        on_progress((number + 1) / len(SEEDS))
    return {"paths": paths}


def two_paths(model: torch.nn.Module, rows: Sequence[TokenRow]) -> dict[str, list[list[float]]]:
    """[step, projection, mean log p(error)] of sft and masked_sft, and [step, distance from eta T v] of their difference."""
    parameters = parameters_of(model)
    start = torch.cat([weight.detach().flatten() for weight in parameters])
    stats, role = statistics_of(model, rows)
    toward = flat_gradient(stats.logp[role == Role.ERROR].sum() / len(rows), parameters)
    num_errors = int((role == Role.ERROR).sum())
    rate = GAIN * num_errors / len(rows) / float(toward.square().sum())
    moved, read = {}, {}
    for name in ("sft", "masked_sft"):
        moved[name], read[name] = _descend(model, rows, name, start, toward, rate)
    gap = [
        [step, float((moved["sft"][step] - moved["masked_sft"][step] - ahead).norm() / ahead.norm())]
        for step in moved["sft"]
        if step
        for ahead in (rate * step * toward,)
    ]
    return {**read, "gap": gap}


def _descend(
    model: torch.nn.Module, rows: Sequence[TokenRow], name: str, start: Tensor, toward: Tensor, rate: float
) -> tuple[dict[int, Tensor], list[list[float]]]:
    parameters = parameters_of(model)
    _place(parameters, start)
    moved, read = {}, []
    unit = rate * float(toward.square().sum())
    here = start
    for step in range(NUM_STEPS + 1):
        stats, role = statistics_of(model, rows)
        if step % EVERY == 0:
            moved[step] = here - start
            projection = float(moved[step] @ toward) / unit
            read.append([step, projection, float(stats.logp[role == Role.ERROR].mean())])
        loss = objectives.sft(stats) if name == "sft" else objectives.masked_sft(stats, role=role)
        here = here - rate * flat_gradient(loss.sum() / len(rows), parameters)
        _place(parameters, here)
    _place(parameters, start)
    return moved, read


@torch.no_grad()
def _place(parameters: Sequence[Tensor], values: Tensor) -> None:
    parts = values.split([weight.numel() for weight in parameters])
    for weight, part in zip(parameters, parts, strict=True):
        weight.copy_(part.view_as(weight))


def diverge_by_error_term(figures: Figures) -> Finding:
    """Judge whether theta_SFT - theta_mSFT is eta T v_error."""
    first = [path["gap"][0][1] for path in figures["paths"]]
    last = student([path["gap"][-1][1] for path in figures["paths"]])
    every = max(point[1] for path in figures["paths"] for point in path["gap"])
    verdict: ClaimVerdict = "holds" if every <= 0.1 else "holds in part" if max(first) <= 0.1 else "does not hold"
    step, end = (figures["paths"][0]["gap"][place][0] for place in (0, -1))
    found = f"the difference is off T v_error by {max(first):.0%} at step {step} and {last.value:.0%} at step {end}"
    return Finding(verdict, found, last)


def linear(figures: Figures) -> Finding:
    """Second half of sft's projection against the first."""
    ratios = []
    for path in figures["paths"]:
        projections = [point[1] for point in path["sft"]]
        middle = len(projections) // 2
        ratios.append((projections[-1] - projections[middle]) / projections[middle])
    measured = student(ratios)
    within = [all(low <= ratio <= high for ratio in ratios) for low, high in ((0.8, 1.25), (0.5, 2.0))]
    verdict: ClaimVerdict = "holds" if within[0] else "holds in part" if within[1] else "does not hold"
    return Finding(verdict, f"the second half gains {measured.value:.2f} of what the first half gained", measured)


def constant(figures: Figures) -> Finding:
    """Judge whether masked SFT moves along v_error; in units of SFT's movement."""
    shares = [path["masked_sft"][-1][1] / path["sft"][-1][1] for path in figures["paths"]]
    widest = max(abs(masked[1]) / abs(path["sft"][-1][1]) for path in figures["paths"] for masked in path["masked_sft"])
    measured = student(shares)
    found = f"masked SFT's projection on v_error ends at {measured.value:+.2f} times SFT's (at most {widest:.2f} on the way)"
    return Finding("holds" if widest <= 0.05 else "does not hold", found, measured)


def monotonic(figures: Figures) -> Finding:
    """Kendall's tau of projection and log p(error), path by path."""
    taus = {
        name: [
            float(kendalltau([p[1] for p in path[name]], [p[2] for p in path[name]]).statistic)
            for path in figures["paths"]
        ]
        for name in ("sft", "masked_sft")
    }
    good = [min(each) > 0.9 for each in taus.values()]
    verdict = verdict_of(good)
    found = "Kendall's tau, least of the seeds: " + ", ".join(f"{name} {min(each):.2f}" for name, each in taus.items())
    return Finding(verdict, found, Estimate(min(map(min, taus.values())), n=len(SEEDS)))


STUDY = Study(
    id=ID,
    paper="000",
    title="Part (c)'s linearised sketch along plain gradient descent",
    claims=(
        Claim(
            id="000-diverge",
            place="Part (c)",
            text="after T steps the parameters of SFT and masked SFT differ by T v_error",
            printed="'the parameters diverge by T v_error'",
            judge=diverge_by_error_term,
            erratum=True,
        ),
        Claim(
            id="000-linear-growth",
            place="Part (c)",
            text="SFT's alignment with v_error grows linearly in the number of steps",
            printed="theta_SFT v_error = theta_mSFT v_error + T |v_error|^2",
            judge=linear,
            erratum=True,
        ),
        Claim(
            id="000-constant-projection",
            place="Part (c)",
            text="masked SFT's alignment with v_error remains constant",
            printed="'remains constant (or follows a random walk)'",
            judge=constant,
            erratum=True,
        ),
        Claim(
            id="000-monotonic",
            place="Part (c)",
            text="the probability of an error is monotonic in the projection on v_error",
            printed="'monotonic in the projection'",
            judge=monotonic,
        ),
    ),
    run=run,
    seconds={"cpu": 140},
    about="mathematics",
    model="embedded world",
)
