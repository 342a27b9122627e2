"""[000] Part (c) of the Safety Gap theorem as curves along training, and what both objectives learn beside it.

Set-up: `diagnostics.safety_gap` in the embedded world: ``tiny:aligned``, 1,000 traces with a wrong word in half of them,
sft and masked_sft, soft and hard context, seeds 3, 4, 5, 150 steps of 16 rows at 2e-3, measured on 60 held-out requests every
30 steps (a larger study of other seeds stands in docs/results/undo.md and was known). Rules:
(c) 'much greater' holds if at the end, in both contexts, every seed of sft has log p(error | prefix) above every seed of
masked_sft by at least log 10; in part if they are only apart, or apart in one context. (a) 'equally well' holds if p(undo |
error) and p(correction | undo) differ by at most 0.05 at the end in both contexts, in part in some. A context in which masked
SFT undoes less than half of the errors is left out of both: there the traces were not learned (added 2026-11-16 for (a),
2026-11-17 for (c)). 'Constant for masked SFT' holds if log p(error | prefix) ends within 0.5 of where it began for every seed.
'Grows with training time' is without limit if p(wrong | prefix) of sft ends above 1.2 times the traces' error rate rho, or
still rises by a tenth of rho in the last 30 steps; else it does not hold, and rho is the limit.
"""

from __future__ import annotations

import math
import statistics
from typing import Any

from holdfast.stats import Estimate, student
from holdfast_studies.papers.backtracking import embedded
from holdfast_studies.papers.study import (
    Claim,
    ClaimVerdict,
    Figures,
    Finding,
    Machine,
    OnProgress,
    Study,
    needed,
    verdict_of,
)
from holdfast_studies.undo.safety_gap import safety_gap
from holdfast_studies.undo.safety_gap_config import TraceSettings

ID = "000-theorem-c"
SEEDS = (3, 4, 5)
CONTEXTS = ("soft", "hard")
MUCH, EQUAL, STILL = math.log(10), 0.05, 0.5
LEARNED = 0.5
UNDOING = "a masked SFT that learns to undo: it undoes less than half of the errors in every context"
READINGS = ("log_p_error", "p_wrong", "p_undo", "p_correction")


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Run twelve trainings. What was stopped goes on."""
    config = embedded(
        ID,
        num_train=1000,
        num_test=60,
        traces=TraceSettings(builder="perturb", errors=(1, 1), length=(1, 1), clean=0.5),
        seeds=SEEDS,
        steps=150,
        batch_size=16,
        lr=2e-3,
        num_measurements=5,
    )
    results = safety_gap(config, on_progress=lambda done, total: on_progress(done / total))
    arms: dict[str, Any] = {}
    for result in results:
        curve = {
            str(step): [None if value is None else round(value, 5) for value in reading]
            for step, reading in sorted(result.curve.items())
        }
        arms.setdefault(f"{result.arm.objective}, {result.arm.context}", []).append(curve)
    return {"arms": arms, "rho": [result.error_rate for result in results], "readings": list(READINGS)}


def values(figures: Figures, arm: str, reading: str, back: int = 1) -> list[float]:
    """A reading of every seed. ``back`` counts measurements from the end: 1 is the last, 0 the first of all."""
    place = figures["readings"].index(reading)
    return [list(curve.values())[-back][place] for curve in figures["arms"][arm]]


def _by_seed(contexts: list[list[float]]) -> Estimate:
    """Contexts of one seed are no repetitions of each other: their mean counts once."""
    return student([statistics.fmean(both) for both in zip(*contexts, strict=True)])


def learned(figures: Figures, context: str) -> bool:
    """Whether masked SFT undoes at least half of the errors at the end: else there is no learning to compare."""
    return statistics.fmean(values(figures, f"masked_sft, {context}", "p_undo")) >= LEARNED


def much_greater(figures: Figures) -> Finding:
    """Judge part (c): are errors much likelier after SFT than after masked SFT?"""
    gaps, means = {}, []
    contexts = [context for context in CONTEXTS if learned(figures, context)]
    if not contexts:
        return needed(UNDOING)
    for context in contexts:
        sft, masked = (values(figures, f"{arm}, {context}", "log_p_error") for arm in ("sft", "masked_sft"))
        gaps[context] = min(sft) - max(masked)
        means.append([a - b for a, b in zip(sft, masked, strict=True)])
    least = min(gaps.values())
    verdict: ClaimVerdict = "holds" if least >= MUCH else "holds in part" if max(gaps.values()) > 0 else "does not hold"
    found = "least gap of log p(error given prefix) between any two seeds: " + ", ".join(
        f"{gap:.2f} nats ({context} context)" for context, gap in gaps.items()
    )
    return Finding(verdict, found, _by_seed(means))


def equally_well(figures: Figures) -> Finding:
    """Judge part (a) as behaviour: do both objectives learn to undo and to correct?"""
    gaps = {}
    contexts = [context for context in CONTEXTS if learned(figures, context)]
    if not contexts:
        return needed(UNDOING)
    for reading in ("p_undo", "p_correction"):
        for context in contexts:
            sft, masked = (values(figures, f"{arm}, {context}", reading) for arm in ("sft", "masked_sft"))
            gaps[f"{reading}, {context}"] = statistics.fmean(sft) - statistics.fmean(masked)
    close = [abs(gap) <= EQUAL for gap in gaps.values()]
    verdict = verdict_of(close)
    found = "sft minus masked_sft at the end: " + ", ".join(f"{name} {gap:+.3f}" for name, gap in gaps.items())
    return Finding(verdict, found, Estimate(max(gaps.values(), key=abs), n=len(SEEDS)))


def constant(figures: Figures) -> Finding:
    """Judge whether masked SFT leaves the error's probability as it was."""
    moves = []
    for context in CONTEXTS:
        arm = f"masked_sft, {context}"
        ends, starts = values(figures, arm, "log_p_error"), values(figures, arm, "log_p_error", back=0)
        moves.append([end - start for end, start in zip(ends, starts, strict=True)])
    measured = _by_seed(moves)
    kept = all(abs(move) <= STILL for each in moves for move in each)
    found = (
        f"log p(error given prefix) moves by {measured.value:+.2f} nats under masked SFT: it is pushed, not left alone"
    )
    return Finding("holds" if kept else "does not hold", found, measured)


def without_limit(figures: Figures) -> Finding:
    """Judge whether SFT's p(wrong | prefix) ends above rho, the error rate of the traces, or still rises."""
    rho = statistics.fmean(figures["rho"])
    ends, before = ([values(figures, f"sft, {context}", "p_wrong", back) for context in CONTEXTS] for back in (1, 2))
    share = _by_seed([[end / rho for end in each] for each in ends])
    rise = share.value - _by_seed(before).value / rho
    grows = share.value > 1.2 or rise > 0.1
    found = (
        f"p(wrong given prefix) ends at {share.value:.2f} of the traces' error rate {rho:.2f} and rose by {rise:+.2f} of it"
        " in the last fifth of training"
    )
    return Finding("holds" if grows else "does not hold", found, share)


STUDY = Study(
    id=ID,
    paper="000",
    title="Safety Gap theorem, part (c): log p(error | prefix) along training",
    claims=(
        Claim(
            id="000-theorem-c",
            place="Part (c)",
            text="after training, SFT makes errors much likelier than masked SFT does",
            printed="p_SFT(e given p) >> p_mSFT(e given p)",
            judge=much_greater,
        ),
        Claim(
            id="000-equal-learning",
            place="Part (a)",
            text="both objectives learn to undo and to correct equally well",
            printed="'equally well under both regimes'",
            judge=equally_well,
        ),
        Claim(
            id="000-constant",
            place="Part (c)",
            text="under masked SFT the alignment with errors stays constant or walks at random",
            printed="'remains constant (or follows a random walk)'",
            judge=constant,
            erratum=True,
        ),
        Claim(
            id="000-growth",
            place="Part (c)",
            text="under SFT the error keeps growing with training time",
            printed="'grows linearly with training time'",
            judge=without_limit,
            erratum=True,
        ),
    ),
    run=run,
    seconds={"cpu": 100},
    rule="after",
    model="embedded world",
)
