"""[004] Fig. 1 in small: p_s, p_dC and p_dW of RL and of SFT with reflection, and what the formula predicts.

Set-up: as in 004-table-1, every study there is; those at fault are left out of all rules but the last. Measures: the three rates
by size; the echo rate; the error of the formula with p_s of first attempts, as the paper estimates it, on problems that the
estimates have not seen.
Rules. RL's sampling: p_s falls at every step from easy to hard. RL's decisions: p_dC at least 0.9 at every size, and p_dW
at the hardest above 0.1 and at least three quarters of that at the easiest. SFT: at the hardest size p_dW at most 0.1 and p_dC at
least 0.9; in part if only one; a p_dC that is not known (no attempt was right) counts for nothing. Gap: at the hardest size RL's
p_dW is at least 0.15 above SFT's. Prediction: RL's mean error over sizes is at most 0.03; sizes at which it resamples less than
one wrong attempt in ten are no test, as the formula is p_s there. Echo: at the hardest size SFT writes the same answer again more
often than RL. Exclusion: leaving out responses that were cut off changes no accuracy by more than a point. Each holds if it does
in every study that can say, in part if in some. Changed after figures were seen: the floor of 0.1 for RL's p_dW (2026-11-15);
faults, unknown p_dC, RL's errors only, fused and beside (2026-11-16).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from holdfast.stats import Estimate
from holdfast_studies.papers.decision_runs import RL, SFT, STUDIES, fault, judged, rate, read_runs, shown
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study
from holdfast_studies.papers.table_1_004 import SOUND

GONE = 0.1  # a p_dW up to here


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Read what the arithmetic studies found."""
    return read_runs(*STUDIES)


def _at_ends(study: dict[str, Any], model: str, name: str) -> tuple[float | None, float | None]:
    return rate(study, model, study["sizes"][0], name), rate(study, model, study["sizes"][-1], name)


# --- rules ----------------------------------------------------------------------------------------------------------


def rl_sampling(figures: Figures) -> Finding:
    """Judge whether RL's p_s falls with difficulty."""

    def rule(study: dict[str, Any]) -> bool:
        values = [rate(study, RL, size, "p_s") or 0.0 for size in study["sizes"]]
        return all(before > after for before, after in pairwise(values))

    return Finding(*judged(figures, rule, lambda study: f"p_s {shown(study, RL, 'p_s')} %", SOUND))


def rl_decisions(figures: Figures) -> Finding:
    """Judge whether RL's p_dC stays near its ceiling and its p_dW stays up."""

    def rule(study: dict[str, Any]) -> bool | None:
        stops = [rate(study, RL, size, "p_dC") for size in study["sizes"]]
        easy, hard = _at_ends(study, RL, "p_dW")
        if easy is None or hard is None:
            return None
        return all(stop is None or stop >= 0.9 for stop in stops) and hard > GONE and hard >= 0.75 * easy

    def words(study: dict[str, Any]) -> str:
        return f"p_dC {shown(study, RL, 'p_dC')}, p_dW {shown(study, RL, 'p_dW')} %"

    return Finding(*judged(figures, rule, words, SOUND))


def sft_collapses(figures: Figures) -> Finding:
    """Judge whether SFT's p_dW falls to zero while its p_dC stays high."""

    def parts(study: dict[str, Any]) -> list[bool]:
        stop, again = (_at_ends(study, SFT, name)[1] for name in ("p_dC", "p_dW"))
        gone = [] if again is None else [again <= GONE]
        return gone + ([] if stop is None else [stop >= 0.9])

    def words(study: dict[str, Any]) -> str:
        return f"p_dC {shown(study, SFT, 'p_dC')}, p_dW {shown(study, SFT, 'p_dW')} %"

    def rule(study: dict[str, Any]) -> bool | None:
        return all(parts(study)) if parts(study) else None

    verdict, found = judged(figures, rule, words, SOUND)
    partly, _ = judged(figures, lambda study: any(parts(study)), words, SOUND)
    return Finding("holds in part" if verdict == "does not hold" != partly else verdict, found)


def gap(figures: Figures) -> Finding:
    """Judge whether RL's p_dW is above SFT's."""

    def difference(study: dict[str, Any]) -> float | None:
        one, other = (_at_ends(study, model, "p_dW")[1] for model in (RL, SFT))
        return None if one is None or other is None else one - other

    def rule(study: dict[str, Any]) -> bool | None:
        found = difference(study)
        return None if found is None else found >= 0.15

    def words(study: dict[str, Any]) -> str:
        found = difference(study)
        return "unknown" if found is None else f"p_dW {100 * found:+.0f} points at {study['sizes'][-1]}"

    known = [each for study in figures.values() if fault(study) is None and (each := difference(study)) is not None]
    verdict, found = judged(figures, rule, words, SOUND)
    return Finding(verdict, found, Estimate(known[-1]) if known else None)


def prediction(figures: Figures) -> Finding:
    """Judge whether the formula predicts the accuracy on held-out problems."""

    def errors(study: dict[str, Any]) -> list[float]:
        cells = study["models"][RL].values()
        resamples = [cell for cell in cells if cell["p_dW"] is not None and cell["p_dW"][0] > GONE]
        return [abs(cell["held_out_error"]) for cell in resamples if cell["held_out_error"] is not None]

    def rule(study: dict[str, Any]) -> bool | None:
        found = errors(study)
        return sum(found) / len(found) <= 0.03 if found else None

    def words(study: dict[str, Any]) -> str:
        found = errors(study)
        if not found:
            return "RL hardly resamples at any size"
        return f"{100 * sum(found) / len(found):.1f} points on average, {100 * max(found):.1f} at most"

    return Finding(*judged(figures, rule, words, f"{SOUND} and resamples"))


def echo(figures: Figures) -> Finding:
    """Judge whether SFT's later attempts repeat its first answer."""

    def rule(study: dict[str, Any]) -> bool | None:
        one, other = (_at_ends(study, model, "echo")[1] for model in (SFT, RL))
        return None if one is None or other is None else one > other

    def words(study: dict[str, Any]) -> str:
        return f"echo: SFT {shown(study, SFT, 'echo')}, RL {shown(study, RL, 'echo')} %"

    return Finding(*judged(figures, rule, words, SOUND))


def exclusion(figures: Figures) -> Finding:
    """Responses over the limit. No study is left out: nothing is compared with an opponent."""

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

    def rule(study: dict[str, Any]) -> bool:
        return max(moves(study).values()) <= 0.01

    verdict, found = judged(figures, rule, words, "responses that were cut off", check=lambda study: None)
    return Finding(verdict, f"accuracy without the responses that were cut off: {found}")


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
        ),
    ),
    run=run,
    seconds={"cpu": 1},
    rule="changed",
    model="arithmetic models",
)
