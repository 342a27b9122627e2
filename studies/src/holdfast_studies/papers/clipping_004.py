"""[004] Sec. 3.3.2, remark on clipping: does it leave the split between sampling and deciding as it was?

Set-up: twenty worlds of attempts of two tokens, at most three (``token_world``), every response listed under the old
policy; the new policy lies a random step of 0.05, 0.2 or 0.5 from it. The surrogate with ratios per token, as GRPO has
them, clipped at 0.2 or not; and with the ratio of the whole response, as the remark writes it. Measures: the share of acts
of each kind that the clip silences (weighed by how likely they are); |sampling part| / |decision part| of the gradient,
clipped over unclipped: how far that is from 1.
Rules: "preserves balanced attribution" holds if clipping changes the ratio of the two parts by at most 10 % in every world
at every step size, in part if it does so for the smallest step. "Applies symmetrically" holds if the shares silenced differ
by at most a tenth of the larger, on average over worlds, at every step size where anything is silenced; does not hold if at one
of those where they do not, Student's interval of the difference over worlds leaves out 0; else in part.
"""

from __future__ import annotations

import math
import statistics

import torch
from torch import Tensor

from holdfast.stats import student
from holdfast_studies.papers.study import Claim, ClaimVerdict, Figures, Finding, Machine, OnProgress, Study
from holdfast_studies.papers.theorem_3_1_004 import advantages
from holdfast_studies.papers.token_world import TokenWorld

NUM_WORLDS = 20
STEPS = (0.05, 0.2, 0.5)
CLIP = 0.2
TOLERANCE = 0.1


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Per step size: shares silenced and changes of the ratio, one per world."""
    figures: Figures = {str(step): {"tokens": [], "decisions": [], "change": [], "change_whole": []} for step in STEPS}
    for seed in range(NUM_WORLDS):
        world = TokenWorld(seed=seed)
        for step in STEPS:
            for name, value in measure(world, step).items():
                figures[str(step)][name].append(round(value, 6))
        on_progress((seed + 1) / NUM_WORLDS)
    return figures


def measure(world: TokenWorld, step: float) -> dict[str, float]:
    """Shares silenced by the clip and changes of the ratio, for one world and one step size."""
    old = world.policy(0)
    theta = old + step * world.policy(3)
    logps, logps_old, scores = world.logps(theta), world.logps(old), world.scores(theta)
    chances = world.response_logps(logps_old).exp()
    advantage = advantages(world, chances)
    by_token = _parts(scores.shape[-1]), _parts(scores.shape[-1])  # unclipped, clipped
    by_response = _parts(scores.shape[-1]), _parts(scores.shape[-1])
    silenced, all_acts = [0.0, 0.0], [0.0, 0.0]
    for number, response in enumerate(world.responses):
        acts = response.acts
        log_ratios = torch.stack([logps[act.context, act.action] - logps_old[act.context, act.action] for act in acts])
        own, chance = advantage[number], chances[number]
        whole = log_ratios.sum().exp()
        for act, ratio in zip(acts, log_ratios.exp(), strict=True):
            score = scores[act.context, act.action]
            kept = bool(_kept(ratio, own))
            by_token[0][act.decides] += chance * ratio * own * score
            by_token[1][act.decides] += chance * ratio * own * score * kept
            by_response[0][act.decides] += chance * whole * own * score
            by_response[1][act.decides] += chance * whole * own * score * bool(_kept(whole, own))
            silenced[act.decides] += float(chance) * (not kept)
            all_acts[act.decides] += float(chance)
    return {
        "tokens": silenced[0] / all_acts[0],
        "decisions": silenced[1] / all_acts[1],
        "change": _change(*by_token),
        "change_whole": _change(*by_response),
    }


def _parts(size: int) -> list[Tensor]:
    return [torch.zeros(size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)]


def _kept(ratio: Tensor, advantage: Tensor) -> Tensor:
    """min(r A, clip(r) A) has a gradient unless the ratio has left the clip on the side that A favours."""
    return (ratio < 1 + CLIP) if float(advantage) > 0 else (ratio > 1 - CLIP)


def _change(before: list[Tensor], after: list[Tensor]) -> float:
    """log of (sampling / decision, clipped) / (the same, unclipped); large where a part is silenced altogether."""
    ratios = [float(parts[0].norm()) / max(float(parts[1].norm()), 1e-12) for parts in (before, after)]
    return math.log(max(ratios[1], 1e-12) / ratios[0])


# --- rules ----------------------------------------------------------------------------------------------------------


def preserved(figures: Figures) -> Finding:
    """Judge whether clipping leaves the ratio of the sampling and decision parts as it is."""
    bound = math.log(1 + TOLERANCE)
    within = {step: [abs(value) <= bound for value in figures[step]["change"]] for step in figures}
    verdict: ClaimVerdict = "does not hold"
    if all(within[str(STEPS[0])]):
        verdict = "holds" if all(all(row) for row in within.values()) else "holds in part"
    each = ", ".join(
        f"by {math.exp(statistics.median(map(abs, figures[step]['change']))) - 1:.0%} (worst "
        f"{math.exp(max(map(abs, figures[step]['change']))) - 1:.0%}) at {step}"
        for step in figures
    )
    whole = math.exp(statistics.median(map(abs, figures[str(STEPS[-1])]["change_whole"]))) - 1
    found = (
        f"clipping changes the ratio of the two parts, in the median, {each}; with one ratio per response by {whole:.0%} "
        f"at {STEPS[-1]}"
    )
    return Finding(verdict, found, student([abs(value) for value in figures[str(STEPS[-1])]["change"]]))


def symmetric(figures: Figures) -> Finding:
    """Judge whether the clip silences the same share of tokens as of decisions."""
    means = {
        step: (statistics.fmean(row["tokens"]), statistics.fmean(row["decisions"])) for step, row in figures.items()
    }
    uneven = [step for step, (one, other) in means.items() if abs(one - other) > TOLERANCE * max(one, other)]
    gaps = {
        step: student([a - b for a, b in zip(r["tokens"], r["decisions"], strict=True)]) for step, r in figures.items()
    }
    beyond = [step for step in uneven if gaps[step].above(0) or gaps[step].below(0)]
    each = ", ".join(
        f"{one:.1%} of tokens and {other:.1%} of decisions at {step}" for step, (one, other) in means.items()
    )
    noise = "" if beyond or not uneven else "; worlds differ so much that none of these differences is beyond chance"
    verdict: ClaimVerdict = "does not hold" if beyond else "holds in part" if uneven else "holds"
    return Finding(verdict, f"the clip silences {each}{noise}", gaps[str(STEPS[-1])])


STUDY = Study(
    id="004-clipping",
    paper="004",
    title="Remark on clipping",
    claims=(
        Claim(
            id="004-clipping-preserves",
            place="Sec. 3.3.2, remark",
            text="clipping changes the size of reward gradients but preserves the split between sampling and deciding",
            printed="'preserving balanced attribution'",
            judge=preserved,
        ),
        Claim(
            id="004-clipping-symmetric",
            place="Sec. 3.3.2, remark",
            text="the clip applies to tokens and to decisions alike",
            printed="'applies symmetrically to both terms'",
            judge=symmetric,
            rule="changed",
        ),
    ),
    run=run,
    seconds={"cpu": 28},
    about="mathematics",
    model="exact worlds",
)
