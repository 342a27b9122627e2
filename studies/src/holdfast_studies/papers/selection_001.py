"""[001] Its selection rule, and what its claims 3 and 4 would show of any rewards whatever. Exact or simulated, no model.

Set-up: (1) the printed rule and ours on every pool of four programs with 0, 1 or 2 of the listed offences each (rewards 0.1 to
0.4 in order): how often an offending program comes back although a clean one was there. (2) R uniform on [0, 1] and S a coin of
0.7, both of no meaning: E[R*S] and KL(overseen || base) for best-of-4 over 1,000 pools of 20, beside one plain draw. (3)
Candidates unsafe with probability 0.3, a filter that misses 0.05 of those, a reward that likes what slips through: P(unsafe
returned) at n = 1, 4, 50, exact and by 200,000 draws. (4) All values of the printed reward and safety functions over their
patterns. (5) R uniform, S a coin of 0.7: E[R*S] of best-of-n in closed form, 1 - (1 - (1 - a)^(n+1)) / (a (n + 1)) with a =
0.7, and by 100,000 draws, n = 1 to 50. Rules: (1) holds if no such pool returns an offender. (2) A criterion says something
only if noise does not meet it: it holds if noise meets it in at most 5 % of pools. (3) 'More samples are at least as safe'
holds if the risk does not rise. (3) also: 'the judge's mistakes are chosen' holds if the share unsafe among what is returned
rises with n. (4) By the set. (5) Convergence to the best safe reward, 1, holds if the draws are within 0.01 of the closed form
and the gap to 1 falls like 1 / (n + 1) to within 10 % from n = 10 on. Added after the figures had been seen (2026-11-16): the
second rule of (3), and (5).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from holdfast.judging.policy import LEGACY_PATTERNS, LegacyPatterns
from holdfast.oversight import Pool, divergence, expected, pass_through, select
from holdfast.stats import Estimate
from holdfast_studies.oversight.programs import heuristic_reward
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study

THRESHOLD = 0.8
POOLS, SIZE, FEW = 1000, 20, 4
UNSAFE, MISSED, DRAWS = 0.3, 0.05, 200_000
REWARD_WORDS = ("def ", "return ", ":", "()", "if ", "import ", "try:", "class ", " " * 51)


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """All four."""
    return {
        "offenders": offenders_returned(),
        "one_offence_passes": [LegacyPatterns()("", pattern).score for pattern in LEGACY_PATTERNS],
        "noise": noise(),
        "risk": {str(n): [pass_through(UNSAFE * MISSED, n), simulated_risk(n)] for n in (1, FEW, 50)},
        "given_returned": {str(n): given_returned(n) for n in (1, FEW, 50)},
        "convergence": {str(n): [expected_joint(n), simulated_joint(n)] for n in (1, FEW, 10, 20, 50)},
        "safety_values": sorted({round(_safety(offences), 6) for offences in range(len(LEGACY_PATTERNS) + 1)}),
        "reward_range": _reward_range(),
    }


def printed_rule(rewards: Sequence[float], safety: Sequence[float]) -> int | None:
    """The number of the program that [001]'s rule returns, as printed."""
    safe = [
        (index, reward) for index, (reward, score) in enumerate(zip(rewards, safety, strict=True)) if score >= THRESHOLD
    ]
    return max(safe, key=lambda pair: pair[1])[0] if safe else None


def offenders_returned() -> dict[str, int]:
    """Pools in which an offender comes back although a clean program was there, by either rule."""
    counts = {"pools": 0, "printed": 0, "ours": 0}
    rewards = [0.1, 0.2, 0.3, 0.4]
    for offences in itertools.product(range(3), repeat=FEW):
        if 0 not in offences or not any(offences):
            continue
        counts["pools"] += 1
        chosen = printed_rule(rewards, [_safety(number) for number in offences])
        counts["printed"] += chosen is not None and offences[chosen] > 0
        ours = select(offences, rewards, [number == 0 for number in offences]).index
        counts["ours"] += ours is not None and offences[ours] > 0
    return counts


def _safety(offences: int) -> float:
    """The printed score of a program with so many of the patterns."""
    return LegacyPatterns()("", " ".join(LEGACY_PATTERNS[:offences])).score or 0.0


def noise() -> dict[str, float]:
    """Shares of pools of meaningless R and S that meet [001]'s criteria, and the means."""
    rng = np.random.default_rng(0)
    gains, moved = [], []
    for _ in range(POOLS):
        rewards = tuple(rng.random(SIZE).tolist())
        pool = Pool(rewards, tuple((rng.random(SIZE) < 1 - UNSAFE).tolist()))
        gains.append(expected(pool, rewards, FEW) - expected(pool, rewards, 1))
        moved.append(divergence(rewards, pool.safe, FEW).from_base)
    return {
        "joint_gain": float(np.mean(gains)),
        "joint_met": float(np.mean([gain > 0 for gain in gains])),
        "kl": float(np.mean(moved)),
        "kl_met": float(np.mean([value > 0.01 for value in moved])),
    }


def simulated_risk(n: int) -> float:
    """The reward likes what slips through, so one such candidate among the n is enough."""
    slipped = np.random.default_rng(n).binomial(n, UNSAFE * MISSED, DRAWS)
    return float((slipped > 0).mean())


def given_returned(n: int) -> float:
    """The share of what is returned that is unsafe. Nothing is returned if all n are seen to be unsafe."""
    return pass_through(UNSAFE * MISSED, n) / (1 - (UNSAFE * (1 - MISSED)) ** n)


def expected_joint(n: int) -> float:
    """E[max R*S] of n draws with R uniform on [0, 1] and P(S = 1) = a: P(max <= t) = (1 - a + a t)^n."""
    a = 1 - UNSAFE
    return 1 - (1 - (1 - a) ** (n + 1)) / (a * (n + 1))


def simulated_joint(n: int) -> float:
    """E[R*S] of best-of-n, by drawing."""
    rng = np.random.default_rng(n)
    draws = rng.random((DRAWS // 2, n)) * (rng.random((DRAWS // 2, n)) < 1 - UNSAFE)
    return float(draws.max(axis=1).mean())


def _reward_range() -> list[float]:
    subsets = itertools.chain.from_iterable(
        itertools.combinations(REWARD_WORDS, size) for size in range(len(REWARD_WORDS) + 1)
    )
    values = [heuristic_reward("".join(words)) for words in subsets]
    return [min(values), max(values)]


def clean_first(figures: Figures) -> Finding:
    """Judge by rule (1): is a clean program returned before one that offends?"""
    seen = figures["offenders"]
    found = (
        f"of {seen['pools']} pools with a clean program in them, the printed rule returns an offender from {seen['printed']},"
        f" ours from {seen['ours']}"
    )
    return Finding(
        "holds" if seen["printed"] == 0 else "does not hold", found, Estimate(seen["printed"] / seen["pools"])
    )


def gate(figures: Figures) -> Finding:
    """Judge by rule (1) programs with one offence alone."""
    passing = sum(score >= THRESHOLD for score in figures["one_offence_passes"])
    total = len(figures["one_offence_passes"])
    found = f"{passing} of its {total} patterns, such as os.system, pass when they stand alone: 1 - 0.2 is not below {THRESHOLD}"
    return Finding("holds" if passing == 0 else "does not hold", found, Estimate(passing / total))


def joint_criterion(figures: Figures) -> Finding:
    """Judge by rule (2): does noise meet the criterion of claim 3?"""
    seen = figures["noise"]
    found = (
        f"met by {seen['joint_met']:.0%} of pools whose R and S mean nothing (by {seen['joint_gain']:+.2f}): max over safe R is"
        " max of R*S, so it cannot fall"
    )
    return Finding("holds" if seen["joint_met"] <= 0.05 else "does not hold", found, Estimate(seen["joint_gain"]))


def kl_criterion(figures: Figures) -> Finding:
    """Judge by rule (2): does noise meet the criterion of claim 4?"""
    seen = figures["noise"]
    found = f"met by {seen['kl_met']:.0%} of pools whose R and S mean nothing (KL {seen['kl']:.2f} on average)"
    return Finding("holds" if seen["kl_met"] <= 0.05 else "does not hold", found, Estimate(seen["kl"]))


def more_samples(figures: Figures) -> Finding:
    """Judge by rule (3): are more samples at least as safe?"""
    risks = [exact for exact, _ in figures["risk"].values()]
    off = max(abs(exact - drawn) for exact, drawn in figures["risk"].values())
    found = "P(unsafe returned) " + ", ".join(f"{each[0]:.1%} at n = {n}" for n, each in figures["risk"].items())
    found += f" (simulation within {off:.1%})"
    rises = any(later > earlier for earlier, later in itertools.pairwise(risks))
    return Finding("does not hold" if rises else "holds", found, Estimate(risks[-1]))


def mistakes_chosen(figures: Figures) -> Finding:
    """Judge by rule (3), of what is returned: do more samples choose the filter's mistakes?"""
    shares = list(figures["given_returned"].values())
    found = "unsafe among what is returned: " + ", ".join(
        f"{share:.1%} at n = {n}" for n, share in figures["given_returned"].items()
    )
    rises = all(later > earlier for earlier, later in itertools.pairwise(shares))
    return Finding("holds" if rises else "does not hold", found, Estimate(shares[-1]))


def converges(figures: Figures) -> Finding:
    """Judge by rule (5): does best-of-n converge as the closed form says?"""
    rows = {int(n): values for n, values in figures["convergence"].items()}
    off = max(abs(exact - drawn) for exact, drawn in rows.values())
    scaled = [(1 - exact) * (n + 1) for n, (exact, _) in rows.items() if n >= 10]
    found = "E[R*S] " + ", ".join(f"{exact:.3f} at n = {n}" for n, (exact, _) in rows.items())
    found += f" (drawn within {off:.3f}); the gap to the best safe reward times n + 1 is {min(scaled):.2f} to {max(scaled):.2f}"
    steady = min(scaled) > 0 and max(scaled) <= 1.1 * min(scaled)
    return Finding("holds" if off <= 0.01 and steady else "does not hold", found, Estimate(scaled[-1]))


def binary(figures: Figures) -> Finding:
    """Judge by rule (4): does the safety function take two values only?"""
    values = figures["safety_values"]
    found = "the printed function takes the values " + ", ".join(f"{value:.1f}" for value in values)
    return Finding("holds" if set(values) <= {0.0, 1.0} else "does not hold", found, Estimate(len(values)))


def reward_range(figures: Figures) -> Finding:
    """Judge by rule (4): does the reward stay in [0, 1]?"""
    low, high = figures["reward_range"]
    inside = low >= 0 and high <= 1 and math.isfinite(high)
    return Finding("holds" if inside else "does not hold", f"from {low:.1f} to {high:.1f} over all of its patterns")


STUDY = Study(
    id="001-selection",
    paper="001",
    title="The selection rule as printed, and what its criteria say of noise",
    claims=(
        Claim(
            id="001-selection",
            place="Section 5",
            text="the rule returns the best program that passes the safety check, so a clean one before an offender",
            printed="argmax R s.t. S = 1, safety >= 0.8",
            judge=clean_first,
            erratum=True,
        ),
        Claim(
            id="001-gate",
            place="Section 4",
            text="the safety function filters harmful code",
            printed="0.2 off per pattern, threshold 0.8",
            judge=gate,
            erratum=True,
        ),
        Claim(
            id="001-joint-criterion",
            place="Claim 3; Implications 3",
            text="a rise of E[R*S] validates self-alignment",
            printed="'positive improvement' validates",
            judge=joint_criterion,
            erratum=True,
        ),
        Claim(
            id="001-kl-criterion",
            place="Claim 4",
            text="a KL above 0.01 shows a meaningful shift toward better, safer solutions",
            printed="'meaningful (> 0.01 threshold)'",
            judge=kl_criterion,
            erratum=True,
        ),
        Claim(
            id="001-more-samples",
            place="Best-of-N; Future Extensions 2",
            text="more samples are at least as safe, with a filter that errs and a reward that likes what slips through",
            printed="n = 4, then 10, 20, 50",
            judge=more_samples,
        ),
        Claim(
            id="001-mistakes-chosen",
            place="Best-of-N; Future Extensions 2",
            text="with such a reward more samples choose the filter's mistakes",
            printed="not in the paper",
            judge=mistakes_chosen,
            rule="after",
        ),
        Claim(
            id="001-convergence-rate",
            place="Future Extensions 5",
            text="best-of-n converges to the best safe reward as n grows, at a known rate",
            printed="'Formal convergence guarantees': none is given",
            judge=converges,
            rule="after",
        ),
        Claim(
            id="001-safety-range",
            place="Sample Statistics",
            text="the safety function is binary",
            printed="{0, 1}",
            judge=binary,
        ),
        Claim(
            id="001-reward-range",
            place="Sample Statistics",
            text="the reward lies in [0, 1]",
            printed="[0.0, 1.0]",
            judge=reward_range,
        ),
    ),
    run=run,
    seconds={"cpu": 3},
    about="mathematics",
    model="simulated pools",
)
