"""[001] Every number of its tables, recomputed from the other numbers it prints. No model is run here.

Set-up: the printed counts, means, thresholds and vectors. Rules beside each claim: a p-value, an interval or a recomputed
number against the printed statement; a sum that comes out as printed holds. The printed interval of the KL is compared with a
parametric bootstrap: 20 tasks x 4 samples drawn from each printed vector, 4,000 times; it holds if at least 90 % of the draws
lie in [0.19, 0.29]. The significance of pass@1 is asked for two numbers of tasks, as the manuscript prints none: 20 (its number
of harmful prompts) and HumanEval's 164 (25 and 41 of them round to the printed 0.15 and 0.25); it holds if p < 0.05 for both,
does not if for neither, and else needs the number. Changed after figures were seen (2026-11-16): the rule had taken 20 for
granted, and its list of criteria had asked for significance where the printed table asks for a gain above 0.05.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import fisher_exact

from holdfast.oversight import divergence
from holdfast.stats import Estimate, clopper_pearson, mcnemar_of
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study, needed

NUM_TASKS, BEFORE, AFTER = 20, 0.15, 0.25
ALL_TASKS = 164  # of HumanEval
REWARD_BEFORE, REWARD_AFTER = 0.76, 0.85
JOINT_BEFORE, JOINT_AFTER = 0.76, 0.85
REFUSED, ASKED = 16, 20
BASE = (0.3, 0.2, 0.2, 0.15, 0.15)
OVERSEEN = (0.1, 0.1, 0.3, 0.3, 0.2)
NUM_BOOTSTRAP = 4000
MOCKS = ("# Mock response: Complete the following Python function...",) * 4


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Compute everything from the printed numbers."""
    counts, of_all = ([round(share * num) for share in (BEFORE, AFTER)] for num in (NUM_TASKS, ALL_TASKS))
    refused = clopper_pearson(REFUSED, ASKED)
    drawn = bootstrap_kl(ASKED * 4)
    return {
        "fisher_p": float(fisher_exact([[count, NUM_TASKS - count] for count in counts]).pvalue),
        "mcnemar_p": mcnemar_of(0, counts[1] - counts[0]),  # the kindest pairing: nothing that passed before fails now
        "fisher_p_of_all": float(fisher_exact([[count, ALL_TASKS - count] for count in of_all]).pvalue),
        "improvement": AFTER - BEFORE,
        "relative": (AFTER - BEFORE) / BEFORE,
        "reward_gain": REWARD_AFTER - REWARD_BEFORE,
        "reward_relative": (REWARD_AFTER - REWARD_BEFORE) / REWARD_BEFORE,
        "joint_minus_reward": [JOINT_BEFORE - REWARD_BEFORE, JOINT_AFTER - REWARD_AFTER],
        "refused": [refused.value, refused.low, refused.high],
        "kl_base_overseen": kl(BASE, OVERSEEN),
        "kl_overseen_base": kl(OVERSEEN, BASE),
        "kl_interval": [float(value) for value in np.quantile(drawn, [0.025, 0.5, 0.975])],
        "kl_within": float(((drawn >= 0.19) & (drawn <= 0.29)).mean()),
        "distinct_mocks": len(set(MOCKS)),
        "kl_of_the_mocks": divergence([0.1] * len(MOCKS), [True] * len(MOCKS), len(MOCKS)).from_base,
    }


def kl(p: tuple[float, ...], q: tuple[float, ...]) -> float:
    """KL(p || q) in nats."""
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def bootstrap_kl(num: int) -> np.ndarray:
    """KL(base || overseen) of ``num`` samples from either printed vector, add-one-half smoothed so that it is finite."""
    rng = np.random.default_rng(0)
    p, q = (rng.multinomial(num, vector, NUM_BOOTSTRAP) + 0.5 for vector in (BASE, OVERSEEN))
    p, q = (each / each.sum(1, keepdims=True) for each in (p, q))
    return np.asarray((p * np.log(p / q)).sum(1))


def capability(figures: Figures) -> Finding:
    """Judge claim 1 by Fisher's test, for either number of tasks."""
    few, all_tasks = figures["fisher_p"], figures["fisher_p_of_all"]
    found = (
        f"3 and 5 of {NUM_TASKS} tasks: Fisher's exact p = {few:.2f} (McNemar's {figures['mcnemar_p']:.2f} at best); 25 and 41 of"
        f" {ALL_TASKS}: p = {all_tasks:.3f}"
    )
    significant = [p < 0.05 for p in (few, all_tasks)]
    if any(significant) and not all(significant):
        return needed(f"the number of tasks, which is not printed; {found}")
    return Finding("holds" if all(significant) else "does not hold", found, Estimate(few))


def improvement(figures: Figures) -> Finding:
    """Holds if difference and ratio come out as printed, and above the target of 0.05."""
    gain, relative = figures["improvement"], figures["relative"]
    right = round(gain, 2) == 0.10 and round(relative, 3) == 0.667 and gain > 0.05
    return Finding("holds" if right else "does not hold", f"{gain:.2f}, {relative:.1%}", Estimate(gain))


def reward_gain(figures: Figures) -> Finding:
    """Holds if the means differ by what is printed."""
    gain, relative = figures["reward_gain"], figures["reward_relative"]
    right = round(gain, 2) == 0.09 and round(relative, 2) == 0.12
    return Finding("holds" if right else "does not hold", f"{gain:.2f}, {relative:.1%}", Estimate(gain))


def joint(figures: Figures) -> Finding:
    """Holds if E[R*S] differs from E[R] somewhere: a filter that removes anything makes it smaller."""
    gaps = figures["joint_minus_reward"]
    found = (
        f"the printed E[R*S] minus the printed E[R]: {gaps[0]:.2f} and {gaps[1]:.2f}; they are equal only if nothing that earns"
        " a reward is ever unsafe"
    )
    return Finding("holds" if any(gap != 0 for gap in gaps) else "does not hold", found, Estimate(max(map(abs, gaps))))


def refusals(figures: Figures) -> Finding:
    """Judge whether the whole interval lies above 80 %."""
    rate, low, high = figures["refused"]
    found = f"16 of 20 is {rate:.0%} [{low:.0%}, {high:.0%}], and 80 % is not above 80 %"
    return Finding("holds" if low > 0.8 else "does not hold", found, Estimate(rate, low, high))


def grade(figures: Figures) -> Finding:
    """Holds if the share is at least 80 %; what the interval allows is said."""
    rate, low, _ = figures["refused"]
    found = f"{rate:.0%} is at least 80 %, while the table beside it asks for more than 80 %; the interval begins at {low:.0%}"
    return Finding("holds in part" if rate >= 0.8 > low else "holds" if low >= 0.8 else "does not hold", found)


def divergence_direction(figures: Figures) -> Finding:
    """Holds if 0.24 is the divergence of the overseen distribution from the base."""
    named, other = figures["kl_overseen_base"], figures["kl_base_overseen"]
    found = f"0.24 is KL(base, overseen) = {other:.4f}, infinite under a hard filter; KL(overseen, base) = {named:.4f}"
    return Finding("holds" if round(named, 2) == 0.24 else "does not hold", found, Estimate(named))


def divergence_interval(figures: Figures) -> Finding:
    """Holds if 90 % of what 80 samples would give lies in the printed interval."""
    low, middle, high = figures["kl_interval"]
    found = (
        f"80 samples of either vector give {middle:.2f} [{low:.2f}, {high:.2f}]; {figures['kl_within']:.0%} of the draws lie in"
        " the printed interval"
    )
    return Finding("holds" if figures["kl_within"] >= 0.9 else "does not hold", found, Estimate(middle, low, high))


def diversity(figures: Figures) -> Finding:
    """Judge whether the four printed samples differ."""
    distinct, moved = figures["distinct_mocks"], figures["kl_of_the_mocks"]
    found = (
        f"{distinct} distinct text among the 4 printed samples; best of equals moves the distribution by KL {moved:.2f}"
    )
    return Finding("holds" if distinct > 1 else "does not hold", found, Estimate(distinct))


def all_criteria(figures: Figures) -> Finding:
    """Judge the four rows of its table of statuses; 'more than' is taken as it stands."""
    met = {
        "gain above 0.05": figures["improvement"] > 0.05,
        "refusals above 80 %": figures["refused"][0] > 0.8,
        "KL above 0.01": figures["kl_overseen_base"] > 0.01,
        "self-alignment above 0": figures["reward_gain"] > 0,
    }
    missed = ", ".join(name for name, good in met.items() if not good)
    found = f"{sum(met.values())} of {len(met)} are met by its own figures; not: {missed or 'none'}"
    share = sum(met.values()) / len(met)
    return Finding("holds" if share == 1 else "holds in part" if share else "does not hold", found, Estimate(share))


STUDY = Study(
    id="001-statistics",
    paper="001",
    title="Every number of the manuscript's tables, recomputed",
    claims=(
        Claim(
            id="001-capability-significance",
            place="Claim 1",
            text="pass@1 rises significantly under oversight",
            printed="0.15 -> 0.25, p < 0.05",
            judge=capability,
            rule="changed",
        ),
        Claim(
            id="001-improvement",
            place="Claim 1; Performance Metrics",
            text="that is an improvement by 0.10, two thirds of the baseline, above the target",
            printed="0.10, 66.7 %, target > 0.05",
            judge=improvement,
        ),
        Claim(
            id="001-refusal-rate",
            place="Claim 2; Performance Metrics",
            text="more than 80 % of harmful prompts are refused",
            printed="16 of 20, target > 80 %",
            judge=refusals,
            erratum=True,
        ),
        Claim(
            id="001-grade",
            place="Section 4",
            text="the refusal rate earns grade A",
            printed="A (at least 80 %)",
            judge=grade,
        ),
        Claim(
            id="001-reward-gain",
            place="Section 3; Self-Alignment",
            text="the mean reward rises by 0.09",
            printed="0.76 -> 0.85, 0.09, 12 %",
            judge=reward_gain,
        ),
        Claim(
            id="001-joint-figures",
            place="Claim 3",
            text="E[R*S] was measured",
            printed="0.76 -> 0.85",
            judge=joint,
            erratum=True,
        ),
        Claim(
            id="001-kl",
            place="Claim 4",
            text="oversight shifts the distribution by KL 0.24",
            printed="0.24",
            judge=divergence_direction,
            erratum=True,
        ),
        Claim(
            id="001-kl-interval",
            place="Claim 4; Statistical Significance",
            text="the KL's interval follows from its samples",
            printed="[0.19, 0.29], 0.24 +- 0.05",
            judge=divergence_interval,
        ),
        Claim(
            id="001-diversity",
            place="Section 2; Best-of-N",
            text="four samples give several different solutions per task",
            printed="'Diversity: multiple solutions per task'; four equal mock answers",
            judge=diversity,
        ),
        Claim(
            id="001-all-criteria",
            place="Conclusion",
            text="all validation criteria are met",
            printed="'100% achievement'",
            judge=all_criteria,
            rule="changed",
        ),
    ),
    run=run,
    seconds={"cpu": 1},
    model="printed figures",
)
