"""[004] Appendix C: the worked example, recomputed exactly, and what becomes of its message when its choices are undone.

Set-up: the paper's logits, reference, trajectory and advantage (``diagnostics.appendix_c``), float64, closed forms. Rules: the
tables hold if every printed figure is right to its last digit, in part if none is off by more than 0.002; each remark on the
message is judged by the sign or order that it asserts.
"""

from __future__ import annotations

from dataclasses import asdict

from holdfast.stats import Estimate
from holdfast_studies.decisions.appendix_c import LENGTH, THETA, table, worked_example
from holdfast_studies.decisions.three_logits import Logits, expected_accuracy, reward_gradient
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study

LAST_DIGIT = 0.00005001
ROUNDING_ON_THE_WAY = 0.002


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """The tables, and the drag under other choices."""
    return {
        "table": [asdict(compared) for compared in table()],
        "as_printed": _named(worked_example().drag),
        "no_length": _named(worked_example(length=1).drag),
        "length_in_score": _named(worked_example(score_length=LENGTH).drag),
        "net_at_0.001": _named(worked_example(kl_weight=0.001).net),
        "push": _named(worked_example().push),
        "plus_log": _named(worked_example(sign=1.0).drag),
        "expected_push": _named(reward_gradient(THETA)),
        "accuracy": expected_accuracy(THETA),
    }


def _named(gradient: Logits) -> dict[str, float]:
    return dict(gradient._asdict())


def tables(figures: Figures) -> Finding:
    """Tables 3 and 4."""
    off = {row["name"]: abs(row["paper"] - row["exact"]) for row in figures["table"]}
    worst = max(off, key=lambda name: off[name])
    right = sum(each <= LAST_DIGIT for each in off.values())
    found = f"{right} of {len(off)} figures right to the last digit; the worst, {worst}, is off by {off[worst]:.4f}"
    verdict = (
        "holds" if right == len(off) else "holds in part" if off[worst] <= ROUNDING_ON_THE_WAY else "does not hold"
    )
    return Finding(verdict, found, Estimate(off[worst]))  # type: ignore[arg-type]


def drag_falls_on_sampling(figures: Figures) -> Finding:
    """Where the factor 8 stands."""
    printed, even = figures["as_printed"], figures["no_length"]
    found = (
        f"the factor 8 multiplies the penalty but not the score; drag on (s, dW, dC) with it {_triple(printed)}, "
        f"without it {_triple(even)}, with it in both {_triple(figures['length_in_score'])}"
    )
    survives = abs(even["s"]) > abs(even["dW"])
    return Finding("holds" if survives else "holds in part", found, Estimate(abs(even["s"]) / abs(even["dW"])))


def drag_outweighs_push(figures: Figures) -> Finding:
    """With the weight that the experiment used."""
    net, push = figures["net_at_0.001"], figures["push"]
    moved = max(abs(net[name] / push[name] - 1) for name in push)
    found = f"with the experiment's KL weight 0.001 the net gradient is {_triple(net)}: the push to within {moved:.2%}"
    return Finding("does not hold" if moved < 0.05 else "holds", found, Estimate(moved))


def sign_of_the_penalty(figures: Figures) -> Finding:
    """+log in the text, -log in the appendix."""
    minus, plus = figures["as_printed"]["s"], figures["plus_log"]["s"]
    found = f"drag on s with the appendix's -log {minus:+.4f}, with the text's +log {plus:+.4f}"
    return Finding("holds" if minus * plus > 0 else "does not hold", found, Estimate(plus))


def one_trajectory(figures: Figures) -> Finding:
    """Against the expectation."""
    here, expected = figures["push"], figures["expected_push"]
    found = (
        f"here the reward pushes s by {here['s']:+.4f}; in expectation (accuracy {figures['accuracy']:.4f}) the push on "
        f"(s, dC, dW) is ({expected['s']:+.4f}, {expected['dC']:+.4f}, {expected['dW']:+.4f})"
    )
    return Finding("holds" if here["s"] * expected["s"] > 0 else "does not hold", found, Estimate(expected["s"]))


def _triple(gradient: dict[str, float]) -> str:
    return f"({gradient['s']:+.4f}, {gradient['dW']:+.4f}, {gradient['dC']:+.4f})"


STUDY = Study(
    id="004-appendix-c",
    paper="004",
    title="Appendix C: the worked example",
    claims=(
        Claim(
            id="004-appendix-c-tables",
            place="App. C, Tables 3 and 4",
            text="penalties, Q-values, drag, push and net gradient of the worked example",
            printed="17 figures, e.g. net (s, dW, dC) -0.2848, +0.0204, +0.0477",
            judge=tables,
        ),
        Claim(
            id="004-appendix-c-length",
            place="App. C, Part 2",
            text="the KL penalty drags sampling more than decisions because attempts are long",
            printed="|drag| 0.186 against 0.079 and 0.002",
            judge=drag_falls_on_sampling,
            erratum=True,
        ),
        Claim(
            id="004-appendix-c-weight",
            place="App. C with Table 7",
            text="the drag outweighs the push on sampling, so sampling is held while decisions learn",
            printed="net -0.2848 = push -0.0987 + drag -0.1861 (KL weight silently 1)",
            judge=drag_outweighs_push,
            erratum=True,
        ),
        Claim(
            id="004-appendix-c-sign",
            place="Sec. 3.3.2 against App. C",
            text="the penalty d is the same quantity in the text and in the appendix",
            printed="+log in the text, -log in the appendix",
            judge=sign_of_the_penalty,
            erratum=True,
        ),
        Claim(
            id="004-appendix-c-expectation",
            place="App. C, Part 1",
            text="the one trajectory worked through shows how the reward pushes sampling",
            printed="push on s -0.0987",
            judge=one_trajectory,
            erratum=True,
        ),
    ),
    run=run,
    seconds={"cpu": 1},
)
