"""[004] Fig. 3, footnotes 12 and 16: training three logits with reward and KL, exact in expectation.

Set-up: from Appendix C's point, 600 steps of gradient ascent at rate 0.5 (``diagnostics.three_logits``), attempts of 8
tokens, KL weight 0.05, the reference set to the policy every 50 steps or never; KL in the reward (the text's placement) and
k3 in the loss (the experiment's). Measures, over all steps: largest over smallest push of the three logits; |drag on s|
over the larger of the two drags on decisions; drag right after a reference update and right before the next, and how often
the size of the drag has a local minimum. Footnote 12: the part of the push on dC that comes from responses with a negative
advantage, by listing up to 12 attempts.
Rules: "comparable" pushes hold if the largest is at most 3 times the smallest throughout, in part if s and dW keep to that.
The drag "exceeds 2:1 throughout" holds if it does for both placements at every step with a drag, in part if for one or for
most steps. The cycles hold if the drag vanishes at every update and there are as many minima as updates, and none without
updates. Footnote 12 holds if negative advantages push dC up. "Decisions learn, sampling is held" holds if both decision
logits move more than s, in part if one does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal

from holdfast.stats import Estimate
from holdfast_studies.decisions.appendix_c import LENGTH, THETA
from holdfast_studies.decisions.three_logits import (
    Action,
    Moment,
    expected_accuracy,
    logp,
    read_trajectory,
    score,
    train,
)
from holdfast_studies.papers.study import Claim, ClaimVerdict, Figures, Finding, Machine, OnProgress, Study, verdict_of

STEPS, EVERY = 600, 50
COMPARABLE, ASYMMETRIC = 3.0, 2.0
PLACEMENTS: tuple[Literal["reward", "k3"], ...] = ("reward", "k3")
MAX_ATTEMPTS = 12


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Run both placements of the KL with updates of the reference, and one without."""
    figures: Figures = {}
    for placement in PLACEMENTS:
        moments = list(train(THETA, steps=STEPS, length=LENGTH, refresh_every=EVERY, placement=placement))
        figures[placement] = {**of_training(moments), **of_cycles(moments)}
    still = list(train(THETA, steps=STEPS, length=LENGTH, placement="reward"))
    figures["no_updates"] = {"minima": minima([size(moment) for moment in still])}
    figures["negative_push_on_dC"], figures["positive_push_on_dC"] = push_on_stopping()
    return figures


def of_training(moments: Sequence[Moment]) -> dict[str, object]:
    """Ratios along the way, and how far each logit went."""
    pushes = [[abs(part) for part in moment.push] for moment in moments]
    drags = [moment.drag for moment in moments if size(moment) > 0]
    ratios = [abs(drag.s) / max(abs(drag.dC), abs(drag.dW)) for drag in drags]
    moved = [last - first for first, last in zip(moments[0].theta, moments[-1].theta, strict=True)]
    return {
        "push_ratio": max(max(push) / min(push) for push in pushes),
        "push_ratio_s_dW": max(max(s, dw) / min(s, dw) for s, _, dw in pushes),
        "drag_ratio_min": min(ratios),
        "drag_ratio_median": sorted(ratios)[len(ratios) // 2],
        "drag_above": sum(ratio > ASYMMETRIC for ratio in ratios) / len(ratios),
        "moved": moved,
        "accuracy": moments[-1].accuracy,
    }


def of_cycles(moments: Sequence[Moment]) -> dict[str, object]:
    """The drag before and after updates of the reference."""
    sizes = [size(moment) for moment in moments]
    updates = [moment.step for moment in moments if moment.refreshed]
    return {
        "updates": len(updates),
        "minima": minima(sizes),
        "after_update": max(sizes[step] for step in updates),
        "before_update": min(sizes[step - 1] for step in updates),
    }


def size(moment: Moment) -> float:
    """The length of the drag, as a vector."""
    return math.sqrt(sum(part**2 for part in moment.drag))


def minima(sizes: Sequence[float]) -> int:
    """How often the drag shrinks and then grows again."""
    return sum(before > here < after for before, here, after in zip(sizes, sizes[1:], sizes[2:], strict=False))


def push_on_stopping() -> tuple[float, float]:
    """The push on dC by responses with a negative advantage, and by those with a positive one: R minus its mean."""
    mean = expected_accuracy(THETA)
    parts = [0.0, 0.0]
    for number in range(1, MAX_ATTEMPTS + 1):
        for attempts in itertools.product("CW", repeat=number):
            actions: list[Action] = []
            for attempt in attempts:
                actions += [attempt, "RESAMPLE"]  # type: ignore[list-item]
            steps = read_trajectory([*actions[:-1], "STOP"])
            advantage = (attempts[-1] == "C") - mean
            chance = math.exp(sum(logp(step, THETA) for step in steps))
            parts[advantage > 0] += chance * advantage * sum(score(step, THETA) for step in steps if step.logit == 1)
    return parts[0], parts[1]


# --- rules ----------------------------------------------------------------------------------------------------------


def comparable_pushes(figures: Figures) -> Finding:
    """Judge the centre-left panel: are the reward's gradients of comparable size?"""
    ratio, pair = (max(figures[name][key] for name in PLACEMENTS) for key in ("push_ratio", "push_ratio_s_dW"))
    verdict: ClaimVerdict = (
        "holds" if ratio <= COMPARABLE else "holds in part" if pair <= COMPARABLE else "does not hold"
    )
    found = (
        f"the largest push is up to {ratio:.0f} times the smallest, that on stopping; s and dW stay within {pair:.1f}"
    )
    return Finding(verdict, found, Estimate(ratio))


def drag_on_sampling(figures: Figures) -> Finding:
    """Judge the centre-right and bottom-right panels: is the drag on sampling twice that on decisions?"""
    always = [figures[name]["drag_ratio_min"] > ASYMMETRIC for name in PLACEMENTS]
    mostly = [figures[name]["drag_above"] > 1 / 2 for name in PLACEMENTS]
    verdict: ClaimVerdict = (
        "holds" if all(always) else "holds in part" if any(always) or all(mostly) else "does not hold"
    )
    each = "; ".join(
        f"{words}: least {figures[name]['drag_ratio_min']:.2f}, median {figures[name]['drag_ratio_median']:.2f}, "
        f"above 2 in {figures[name]['drag_above']:.0%} of steps"
        for name, words in zip(PLACEMENTS, ("KL in the reward", "k3 in the loss"), strict=True)
    )
    return Finding(
        verdict,
        f"drag on s over the larger drag on a decision: {each}",
        Estimate(figures["reward"]["drag_ratio_median"]),
    )


def footnote_16(figures: Figures) -> Finding:
    """Judge whether the cycles come from updating the reference."""
    row, still = figures["reward"], figures["no_updates"]["minima"]
    cycles = row["after_update"] < 1e-12 < row["before_update"] and row["minima"] == row["updates"]
    found = (
        f"the drag is {row['after_update']:.1g} at each of {row['updates']} updates of the reference and at least "
        f"{row['before_update']:.2g} just before: {row['minima']} minima; without updates {still}"
    )
    return Finding("holds" if cycles and still == 0 else "does not hold", found, Estimate(row["minima"]))


def footnote_12(figures: Figures) -> Finding:
    """Judge whether negative advantages make stopping on right answers likelier."""
    down, up = figures["negative_push_on_dC"], figures["positive_push_on_dC"]
    found = (
        f"responses with a negative advantage push stopping on a right answer by {down:+.4f}, the others by {up:+.4f}"
    )
    return Finding("holds" if down > 0 else "does not hold", found, Estimate(down))


def decisions_learn(figures: Figures) -> Finding:
    """Judge the bottom-left panel: do decisions learn while sampling stays near the reference?"""
    s, dc, dw = figures["reward"]["moved"]
    further = [abs(each) > abs(s) for each in (dc, dw)]
    verdict = verdict_of(further)
    found = f"in {STEPS} steps with KL in the reward s moved by {s:+.2f}, dC by {dc:+.2f}, dW by {dw:+.2f}"
    return Finding(verdict, found, Estimate(s))


STUDY = Study(
    id="004-figure-3",
    paper="004",
    title="Fig. 3: three logits in training; footnotes 12 and 16",
    claims=(
        Claim(
            id="004-figure-3-push",
            place="Fig. 3, centre left",
            text="the surrogate reward gives comparable gradients to all three logits",
            printed="'comparable gradient magnitudes across all parameters'",
            judge=comparable_pushes,
        ),
        Claim(
            id="004-figure-3-drag",
            place="Fig. 3, centre and bottom right",
            text="the KL penalty's gradient on sampling exceeds that on decisions 2:1 throughout",
            printed="'exceeds 2:1', 'nearly an order of magnitude'",
            judge=drag_on_sampling,
        ),
        Claim(
            id="004-figure-3-net",
            place="Fig. 3, bottom left",
            text="decisions learn while sampling is held near the reference",
            printed="'differential learning'",
            judge=decisions_learn,
        ),
        Claim(
            id="004-footnote-16",
            place="Footnote 16",
            text="the cycles of the figure come from updating the reference",
            printed="'because of reference model updating'",
            judge=footnote_16,
        ),
        Claim(
            id="004-footnote-12",
            place="Footnote 12",
            text="negative samples and negative rewards tend to make stopping on right answers likelier",
            printed="a conjecture",
            judge=footnote_12,
        ),
    ),
    run=run,
    seconds={"cpu": 2},
    about="mathematics",
    model="closed forms",
)
