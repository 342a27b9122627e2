"""[004] Sec. 5.2 and 5.3: claims cited from others, as far as small models can speak to them.

Set-up: as in 004-table-1; all from one base model per seed, so that "degrades" and "improves" are against it. Measures:
accuracy minus the base model's at the hardest size, seed by seed. The sweep (studies/configs/arithmetic/sweep.yaml), where its
figures are there: SFT with reflection from heavy to gentle, against RL.
Rules. SFT degrades and RL improves: below zero in every seed for both SFTs, above zero for RL; in part if one of the two.
Whatever the setting: RL is ahead of SFT with reflection at the hardest size for every setting of the sweep; in part if for
some. DFT: above SFT with reflection in every seed at the hardest size, and at least the base model's mean accuracy; in part
if one of the two.
"""

from __future__ import annotations

from typing import Any

from holdfast.stats import student
from holdfast_studies.papers.decision_runs import over_studies, rate, read_runs, sentence, shown
from holdfast_studies.papers.measured import ClaimVerdict
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study
from holdfast_studies.papers.table_1_004 import BASE, PLAIN, RL, SFT

DFT = "dft_reflection"


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Read the studies' results."""
    return read_runs("micro", "h200", "sweep")


def gains(study: dict[str, Any], model: str, over: str = BASE) -> list[float]:
    """At the hardest size, seed by seed."""
    rows = [study["models"][each][study["sizes"][-1]]["by_seed"] for each in (model, over)]
    return [one - other for one, other in zip(*rows, strict=True)]


def _trained(figures: Figures) -> Figures:
    return {name: study for name, study in figures.items() if name != "sweep"}


def _in_parts(studies: Figures, parts: list[Any]) -> ClaimVerdict:
    """Holds if every part does in every study, not at all if none does in any."""
    verdicts = [over_studies(studies, part) for part in parts]
    if all(verdict == "holds" for verdict in verdicts):
        return "holds"
    return "does not hold" if all(verdict == "does not hold" for verdict in verdicts) else "holds in part"


# --- rules ----------------------------------------------------------------------------------------------------------


def sft_and_rl(figures: Figures) -> Finding:
    """Against the base model."""
    studies = _trained(figures)
    verdict = _in_parts(
        studies,
        [
            lambda study: all(gain < 0 for model in (SFT, PLAIN) for gain in gains(study, model)),
            lambda study: all(gain > 0 for gain in gains(study, RL)),
        ],
    )

    def words(study: dict[str, Any]) -> str:
        each = (f"{name} {100 * sum(gains(study, name)) / len(gains(study, name)):+.0f}" for name in (PLAIN, SFT, RL))
        return f"at {study['sizes'][-1]} against base: {', '.join(each)} points"

    return Finding(verdict, sentence(studies, words), student(gains(list(studies.values())[-1], RL)))


def whatever_the_setting(figures: Figures) -> Finding:
    """Heavy and gentle SFT."""
    if "sweep" not in figures:
        return Finding(
            "not testable here", "needed: `holdfast diagnose decisions studies/configs/arithmetic/sweep.yaml`"
        )
    study = figures["sweep"]
    hardest = study["sizes"][-1]
    ours = rate(study, RL, hardest) or 0.0
    settings = [model for model in study["models"] if model not in (RL, BASE)]
    ahead = [model for model in settings if ours > (rate(study, model, hardest) or 0.0)]
    rejects = [
        model
        for model in settings
        if (rate(study, RL, hardest, "p_dW") or 0) > (rate(study, model, hardest, "p_dW") or 0)
    ]
    best = max(settings, key=lambda model: rate(study, model, hardest) or 0.0)
    found = (
        f"at {hardest} RL ({ours:.0%}) is ahead of {len(ahead)} of {len(settings)} settings of SFT, and has the higher p_dW "
        f"against {len(rejects)}; the best SFT is {best} ({shown(study, best)} % over sizes)"
    )
    verdict: ClaimVerdict = "holds" if len(ahead) == len(settings) else "holds in part" if ahead else "does not hold"
    return Finding(verdict, found)


def dft(figures: Figures) -> Finding:
    """DFT against SFT and base."""
    studies = _trained(figures)
    verdict = _in_parts(
        studies,
        [
            lambda study: all(gain > 0 for gain in gains(study, DFT, over=SFT)),
            lambda study: sum(gains(study, DFT)) >= 0,
        ],
    )
    found = sentence(
        studies,
        lambda study: (
            f"DFT {shown(study, DFT)}, SFT {shown(study, SFT)}, base {shown(study, BASE)} % from easiest to hardest"
        ),
    )
    return Finding(verdict, found, student(gains(list(studies.values())[-1], DFT, over=SFT)))


STUDY = Study(
    id="004-cited",
    paper="004",
    title="Claims cited from others",
    claims=(
        Claim(
            id="004-cited-out-of-distribution",
            place="Sec. 5.2 (from Chu et al.)",
            text="out of distribution SFT makes a model worse and RL makes it better",
            printed="SFT -8 to -80 %, RL +3 to +61 %",
            judge=sft_and_rl,
        ),
        Claim(
            id="004-cited-structure",
            place="Sec. 5.2",
            text="that is the objective's doing, not the data's or the setting's",
            printed="'the memorization stems from the training objective's structure'",
            judge=whatever_the_setting,
        ),
        Claim(
            id="004-cited-dft",
            place="Sec. 5.3 (from Wu et al.)",
            text="DFT improves on the base model where SFT makes it worse",
            printed="AIME24: base 6.68, SFT 2.48, DFT 8.56",
            judge=dft,
        ),
    ),
    run=run,
    seconds={"cpu": 1},
)
