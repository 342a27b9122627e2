"""[004] Gradient attribution on SmolLM2-135M-Instruct: what attempts and decisions contribute to each objective's gradient.

Set-up: docs/results/decisions/attribution-smollm2.json: adapters taught for 80 steps to attempt, recheck and correct products,
240 of their own responses, split by the paper's kind of markers; reference: the stock model; one seed. Measured: the norm of
the attempts' part of a gradient over that of the decisions' part, and how this ratio grows with the length of an attempt (fit
over six bins of lengths, 23 to 230 tokens, with its interval).
Rules. KL ("O(L) against O(1)"): for KL in the reward (what the theorem treats) and k2 in the loss the interval of the exponent
lies above 0.5; in part if one does; not if neither does. k3, which the paper's experiment used, is told and not judged where
one token makes it more than 1,000 times either of the others. SFT ("imbalanced"): holds if SFT's ratio is above 2, the paper's
own bar of Fig. 3, in part above 1.5. Reward against KL ("reward balanced, KL unbalanced"): holds if the KL's ratio is above the
reward's; not testable if the reward has a gradient in fewer than half of the bins, because then hardly any response was right.
Rules written on 2026-11-16, after the figures had been seen.
"""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.config import InputError
from holdfast.stats import Estimate
from holdfast_studies.papers.decision_runs import RESULTS
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study, needed, verdict_of

FILE = "attribution-smollm2.json"
PENALTIES = ("kl_reward", "kl_loss_k2")
SHOWN = (*PENALTIES, "kl_loss_k3", "sft", "reward")


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Norms by role, exponents with their intervals, and in how many bins of lengths the gradient is not zero."""
    path = RESULTS / FILE
    if not path.exists():
        raise InputError(f"{path}: not there; `holdfast diagnose attribution ... --json {path}` makes it")
    report = json.loads(path.read_text(encoding="utf-8"))
    figures: Figures = {}
    for name in SHOWN:
        norms = {row["role"]: row["norm"] for row in report["rows"] if row["objective"] == name}
        growth = next(each for each in report["growth"] if each["objective"] == name)
        bins = [row["norm"] for rows in report["by_length"].values() for row in rows if _is_sampling(row, name)]
        figures[name] = {
            "norms": [norms["sample"], norms["decision"]],
            "exponent": [growth["exponent"], growth["low"], growth["high"]],
            "bins": [sum(norm > 0 for norm in bins), len(bins)],
        }
    return figures


def reads(scale: Machine) -> list[Path]:
    """The report of the attribution, if it is there."""
    return [path for path in (RESULTS / FILE,) if path.exists()]


def _is_sampling(row: dict[str, object], name: str) -> bool:
    return row["objective"] == name and row["role"] == "sample"


def ratio(figures: Figures, name: str) -> float:
    """The norm of the attempts' part of a gradient, divided by that of the decisions' part."""
    attempts, decisions = figures[name]["norms"]
    return float(attempts / decisions)


def falls_on_sampling(figures: Figures) -> Finding:
    """Judge Theorem 3.2 on a real model: does the KL's gradient on attempts grow with their length?"""
    clauses, grows = [], []
    for name in PENALTIES:
        exponent, low, high = figures[name]["exponent"]
        clauses.append(f"{name} {ratio(figures, name):.2f}, L^{exponent:.1f} [{low:.1f}, {high:.1f}]")
        grows.append(low > 0.5)
    k3 = ratio(figures, "kl_loss_k3")
    told = f"kl_loss_k3 {k3:.0f}" + (
        ": one token explodes, not judged" if k3 > 1000 * ratio(figures, PENALTIES[0]) else ""
    )
    found = f"attempts' part over decisions' part and its growth with the length: {', '.join(clauses)}; {told}"
    verdict = verdict_of(grows)
    return Finding(verdict, found, Estimate(*figures[PENALTIES[0]]["exponent"]))


def sft_imbalanced(figures: Figures) -> Finding:
    """Judge Appendix D on a real model: is SFT's gradient larger on attempts than on decisions?"""
    value = ratio(figures, "sft")
    found = f"SFT's gradient: attempts' part over decisions' part {value:.2f}"
    return Finding(
        "holds" if value > 2 else "holds in part" if value > 1.5 else "does not hold", found, Estimate(value)
    )


def reward_balanced(figures: Figures) -> Finding:
    """Judge whether the KL's ratio of attempts to decisions is above the reward's."""
    seen, bins = figures["reward"]["bins"]
    reward, penalty = ratio(figures, "reward"), ratio(figures, PENALTIES[0])
    if seen < bins / 2:
        return needed(
            f"a model that is right at more lengths: the reward has a gradient in {seen} of {bins} bins (ratio {reward:.1f},"
            f" against {penalty:.2f} for KL in the reward)"
        )
    found = f"attempts' part over decisions' part: reward {reward:.2f}, KL in the reward {penalty:.2f}"
    return Finding("holds" if penalty > reward else "does not hold", found, Estimate(penalty / reward))


STUDY = Study(
    id="004-attribution-smollm2",
    paper="004",
    title="Gradients by role on SmolLM2-135M-Instruct",
    claims=(
        Claim(
            id="004-attribution-smollm2-kl",
            place="Theorem 3.2, Sec. 3.3.2",
            text="on a real model the KL penalty's gradient falls on sampling, the more so the longer attempts are",
            printed="O(L) against O(1)",
            judge=falls_on_sampling,
        ),
        Claim(
            id="004-attribution-smollm2-sft",
            place="Abstract, App. D",
            text="on a real model SFT's gradient falls on sampling",
            printed="'SFT and KL penalties exhibit Unbalanced Gradient Attribution'",
            judge=sft_imbalanced,
        ),
        Claim(
            id="004-attribution-smollm2-reward",
            place="Abstract, Sec. 3.3",
            text="on a real model the reward's gradient is balanced where the KL penalty's is not",
            printed="'Balanced' against 'Unbalanced'",
            judge=reward_balanced,
        ),
    ),
    run=run,
    seconds={"cpu": 1},
    reads=reads,
    rule="after",
    model="SmolLM2-135M",
)
