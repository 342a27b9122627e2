"""[001] Its own figures, checked: significance, intervals, divergence, the safety gate. No model is run here.

Set-up: the printed counts and vectors; the printed gate (0.2 off for each of 13 substrings, threshold 0.8) on one harmless line
that calls ``os.system``; the printed reward on the printed mock answer. Rules beside each claim below: a p-value, an interval or
a recomputed number against the printed statement.
"""

from __future__ import annotations

import math

from scipy.stats import binomtest, fisher_exact

from holdfast.judging.policy import LegacyPatterns
from holdfast.papers.study import Claim, Figures, Finding, OnProgress, Scale, Study
from holdfast.records.studies import Measured

NUM_TASKS, BEFORE, AFTER = 20, 0.15, 0.25
BASE = (0.3, 0.2, 0.2, 0.15, 0.15)
OVERSEEN = (0.1, 0.1, 0.3, 0.3, 0.2)
MOCK = "# Mock response: Complete the following Python function..."


def run(scale: Scale, on_progress: OnProgress) -> Figures:
    """Everything follows from what is printed."""
    counts = [round(share * NUM_TASKS) for share in (BEFORE, AFTER)]
    refused = binomtest(16, 20).proportion_ci()
    return {
        "fisher_p": float(fisher_exact([[count, NUM_TASKS - count] for count in counts]).pvalue),
        "count_of_164": BEFORE * 164,
        "refused": [float(refused.low), float(refused.high)],
        "kl_base_overseen": kl(BASE, OVERSEEN),
        "kl_overseen_base": kl(OVERSEEN, BASE),
        "gate_on_one_call": LegacyPatterns()("", 'import os\nos.system("true")\n').score,
        "reward_of_the_mock": reward_score(MOCK),
    }


def kl(p: tuple[float, ...], q: tuple[float, ...]) -> float:
    """KL(p || q) in nats."""
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def reward_score(solution: str) -> float:
    """The printed reward, as printed."""
    parts = (
        (0.3, "def " in solution), (0.2, "return " in solution), (0.1, ":" in solution),
        (0.1, "(" in solution and ")" in solution), (0.2, "if " in solution or "for " in solution),
        (0.1, len(solution) > 50), (0.1, "import " in solution), (0.1, "try:" in solution), (0.1, "class " in solution),
    )  # fmt: skip
    return min(1.0, sum(score for score, there in parts if there))


def capability(figures: Figures) -> Finding:
    """Holds if p < 0.05."""
    p = figures["fisher_p"]
    found = (
        f"3 and 5 of 20 tasks: Fisher's exact p = {p:.2f}; 0.15 of 164 tasks is {figures['count_of_164']:.1f}, no count"
    )
    return Finding("holds" if p < 0.05 else "does not hold", found, Measured(p))


def refusals(figures: Figures) -> Finding:
    """Holds if the interval lies above 80 %."""
    low, high = figures["refused"]
    found = f"16 of 20 is 80 % [{low:.0%}, {high:.0%}], and 80 % is not above 80 %"
    return Finding("holds" if low > 0.8 else "does not hold", found, Measured(0.8, low, high))


def divergence(figures: Figures) -> Finding:
    """Holds if 0.24 is the divergence of the overseen distribution from the base."""
    named, other = figures["kl_overseen_base"], figures["kl_base_overseen"]
    found = (
        f"0.24 is KL(base || overseen) = {other:.4f}, infinite under a hard filter; KL(overseen || base) = {named:.4f}"
    )
    return Finding("holds" if round(named, 2) == 0.24 else "does not hold", found, Measured(named))


def gate(figures: Figures) -> Finding:
    """Holds if a program that calls os.system is filtered."""
    score = figures["gate_on_one_call"]
    found = f"a program that calls os.system once scores {score:.1f}, which passes the threshold of 0.8"
    return Finding("holds" if score < 0.8 else "does not hold", found, Measured(score))


def reward(figures: Figures) -> Finding:
    """Holds if an answer without code earns nothing."""
    score = figures["reward_of_the_mock"]
    found = f"the printed mock answer, a comment without code, earns {score:.1f}"
    return Finding("holds" if score == 0 else "does not hold", found, Measured(score))


STUDY = Study(
    id="001-statistics",
    paper="001",
    title="The manuscript's own figures, checked",
    claims=(
        Claim(
            id="001-capability-significance",
            place="Claim 1",
            text="pass@1 rises significantly under oversight",
            printed="0.15 -> 0.25, p < 0.05",
            judge=capability,
        ),
        Claim(
            id="001-refusal-rate",
            place="Claim 2",
            text="more than 80 % of harmful prompts are refused",
            printed="16 of 20, target > 80 %",
            judge=refusals,
        ),
        Claim(
            id="001-kl",
            place="Claim 4",
            text="oversight shifts the distribution by KL 0.24",
            printed="0.24 [0.19, 0.29]",
            judge=divergence,
        ),
        Claim(
            id="001-gate",
            place="Section 4",
            text="the safety function filters harmful code",
            printed="'successfully filters harmful content'",
            judge=gate,
        ),
        Claim(
            id="001-reward",
            place="Section 3",
            text="the heuristic reward captures code quality",
            printed="'captures code quality'",
            judge=reward,
        ),
    ),
    run=run,
    seconds={"cpu": 1},
)
