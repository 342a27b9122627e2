"""[004] Fig. 1 in small: p_s, p_dC and p_dW of RL and of SFT with reflection, and what the formula predicts.

Set-up: as in 004-table-1. Measures: the three rates by size; the echo rate; the error of the formula on problems that the
estimates have not seen (on the same problems it is an identity, 004-formula).
Rules. RL's sampling: p_s falls at every step from easy to hard. RL's decisions: p_dC at least 0.9 at every size, and p_dW
at the hardest above 0.1 and at least three quarters of that at the easiest. SFT: at the hardest size p_dW at most 0.1 while
p_dC, where it is known, is at least 0.9; in part if only one. Gap: at the hardest size RL's p_dW is at least 0.15 above SFT's.
Prediction: the mean error over models and sizes is at most 0.03. Echo: at the hardest size SFT writes the same answer again
more often than RL. Exclusion: leaving out responses that were cut off changes no accuracy by more than a point. Each holds
if it does in every study, in part if in some.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from holdfast.stats import Estimate
from holdfast_studies.papers.decision_runs import over_studies, rate, read_runs, sentence, shown
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study
from holdfast_studies.papers.table_1_004 import RL, SFT

GONE = 0.1  # a p_dW up to here


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Read the studies' results."""
    return read_runs("micro", "h200")


def _at_ends(study: dict[str, Any], model: str, name: str) -> tuple[float | None, float | None]:
    return rate(study, model, study["sizes"][0], name), rate(study, model, study["sizes"][-1], name)


# --- rules ----------------------------------------------------------------------------------------------------------


def rl_sampling(figures: Figures) -> Finding:
    """p_s with difficulty."""

    def rule(study: dict[str, Any]) -> bool:
        values = [rate(study, RL, size, "p_s") or 0.0 for size in study["sizes"]]
        return all(before > after for before, after in pairwise(values))

    return Finding(over_studies(figures, rule), sentence(figures, lambda study: f"p_s {shown(study, RL, 'p_s')} %"))


def rl_decisions(figures: Figures) -> Finding:
    """p_dC near the ceiling, p_dW kept."""

    def rule(study: dict[str, Any]) -> bool | None:
        stops = [rate(study, RL, size, "p_dC") for size in study["sizes"]]
        easy, hard = _at_ends(study, RL, "p_dW")
        if easy is None or hard is None:
            return None
        return all(stop is None or stop >= 0.9 for stop in stops) and hard > GONE and hard >= 0.75 * easy

    found = sentence(figures, lambda study: f"p_dC {shown(study, RL, 'p_dC')}, p_dW {shown(study, RL, 'p_dW')} %")
    return Finding(over_studies(figures, rule), found)


def sft_collapses(figures: Figures) -> Finding:
    """p_dW gone, p_dC kept."""

    def parts(study: dict[str, Any]) -> tuple[bool, bool]:
        stop, again = (_at_ends(study, SFT, name)[1] for name in ("p_dC", "p_dW"))
        return again is not None and again <= GONE, stop is None or stop >= 0.9

    found = sentence(figures, lambda study: f"p_dC {shown(study, SFT, 'p_dC')}, p_dW {shown(study, SFT, 'p_dW')} %")
    verdict = over_studies(figures, lambda study: all(parts(study)))
    partly = verdict == "does not hold" and any(any(parts(study)) for study in figures.values())
    return Finding("holds in part" if partly else verdict, found)


def gap(figures: Figures) -> Finding:
    """RL's p_dW over SFT's."""

    def difference(study: dict[str, Any]) -> float | None:
        one, other = (_at_ends(study, model, "p_dW")[1] for model in (RL, SFT))
        return None if one is None or other is None else one - other

    def rule(study: dict[str, Any]) -> bool | None:
        found = difference(study)
        return None if found is None else found >= 0.15

    def words(study: dict[str, Any]) -> str:
        found = difference(study)
        return "unknown" if found is None else f"p_dW {100 * found:+.0f} points at {study['sizes'][-1]}"

    known = [found for found in (difference(study) for study in figures.values()) if found is not None]
    return Finding(over_studies(figures, rule), sentence(figures, words), Estimate(known[-1]) if known else None)


def prediction(figures: Figures) -> Finding:
    """Held-out problems."""

    def errors(study: dict[str, Any]) -> list[float]:
        cells = [cell for sizes in study["models"].values() for cell in sizes.values()]
        return [abs(cell["held_out_error"]) for cell in cells if cell["held_out_error"] is not None]

    def mean(study: dict[str, Any]) -> float:
        return sum(errors(study)) / len(errors(study))

    found = sentence(
        figures, lambda study: f"{100 * mean(study):.1f} points on average, {100 * max(errors(study)):.1f} at most"
    )
    verdict = over_studies(figures, lambda study: mean(study) <= 0.03)
    return Finding(verdict, found, Estimate(mean(list(figures.values())[-1])))


def echo(figures: Figures) -> Finding:
    """The same answer again."""

    def rule(study: dict[str, Any]) -> bool | None:
        one, other = (_at_ends(study, model, "echo")[1] for model in (SFT, RL))
        return None if one is None or other is None else one > other

    found = sentence(figures, lambda study: f"echo: SFT {shown(study, SFT, 'echo')}, RL {shown(study, RL, 'echo')} %")
    return Finding(over_studies(figures, rule), found)


def exclusion(figures: Figures) -> Finding:
    """Responses over the limit."""

    def moves(study: dict[str, Any]) -> dict[str, float]:
        found = {}
        for model, cells in study["models"].items():
            for size, cell in cells.items():
                if cell["observed_stopped"] is not None:
                    found[f"{model} at {size}"] = cell["observed_stopped"][0] - cell["observed"][0]
        return found

    def words(study: dict[str, Any]) -> str:
        worst = max(moves(study), key=lambda name: moves(study)[name])
        return f"up to {100 * moves(study)[worst]:+.1f} points ({worst})"

    verdict = over_studies(figures, lambda study: max(moves(study).values()) <= 0.01)
    return Finding(verdict, f"without the responses that were cut off accuracy moves by {sentence(figures, words)}")


STUDY = Study(
    id="004-figure-1",
    paper="004",
    title="Fig. 1: calibrated rates of RL and SFT",
    claims=(
        Claim(
            id="004-figure-1-rl-sampling",
            place="Fig. 1(a), (1)",
            text="under RL sampling accuracy falls monotonically with difficulty",
            printed="about 80 % to below 20 %",
            judge=rl_sampling,
        ),
        Claim(
            id="004-figure-1-rl-decisions",
            place="Fig. 1(a), (2)",
            text="under RL the decision rates stay: p_dC near ceiling, p_dW sustained",
            printed="p_dW 40 to 60 % far out of distribution",
            judge=rl_decisions,
        ),
        Claim(
            id="004-figure-1-prediction",
            place="Fig. 1(a), (3)",
            text="the calibrated model predicts the observed accuracy",
            printed="'accurately predicts' (on the same responses)",
            judge=prediction,
        ),
        Claim(
            id="004-figure-1-sft",
            place="Fig. 1(b)",
            text="under SFT p_dW collapses towards zero out of distribution while p_dC stays high",
            printed="'collapses toward zero'",
            judge=sft_collapses,
        ),
        Claim(
            id="004-figure-1-gap",
            place="Fig. 1, Sec. 4.2",
            text="far out of distribution RL still rejects wrong attempts where SFT does not",
            printed="p_dW 40 to 60 % against about 0",
            judge=gap,
        ),
        Claim(
            id="004-figure-1-echo",
            place="Sec. 4.2, footnote 1",
            text="SFT's later answers echo its first ones",
            printed="'instead echoing first attempts'",
            judge=echo,
        ),
        Claim(
            id="004-figure-1-exclusion",
            place="E.2, Fig. 1",
            text="leaving out responses that exceed the length limit does not change the picture",
            printed="answers over 8,192 tokens are excluded",
            judge=exclusion,
            erratum=True,
        ),
    ),
    run=run,
    seconds={"cpu": 1},
)
