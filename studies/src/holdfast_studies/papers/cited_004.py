"""[004] Sec. 5.2 and 5.3: claims cited from others, as far as small models can speak to them.

Set-up: as in 004-table-1; all from one base model per seed, so that "degrades" and "improves" are against it. Studies at fault
are left out. Measures: accuracy minus the base model's at the hardest size, seed by seed.
Rules. SFT degrades and RL improves: below zero in every seed for both SFTs, above zero for RL; in part if one of the two.
Structure: that RL is ahead of SFT whatever the setting does not show that the *objective* does it, as RL trains on the model's
own responses and SFT on rows of ours. It holds if RL is ahead of a control in every seed: SFT on the model's own correct
responses ("sft_own"); without that control it is not testable, nor where RL or the control is broken (right on nothing) or below
the base model at the training sizes, nor where both are below 1 % at the hardest size. DFT: at the hardest size DFT is above SFT
with reflection in every seed (not asked where both are below 1 %: two models at the floor) and at least as accurate as the base
model; in part if one of the two. Changed after figures were seen (2026-11-16): faults, the control, the floor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.stats import Estimate, student
from holdfast_studies.papers.decision_runs import (
    BASE,
    CHECKING,
    DFT,
    OWN,
    PLAIN,
    RL,
    SFT,
    STUDIES,
    control_fault,
    judged,
    last_sound,
    rate,
    read_runs,
    shown,
)
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study, needed
from holdfast_studies.papers.table_1_004 import SOUND

FLOOR = 0.01
CONTROL = "a control, SFT on the base model's own correct responses at RL's budget"


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Read what the arithmetic studies found."""
    return read_runs(*STUDIES, "sweep", CHECKING)


def gains(study: dict[str, Any], model: str, over: str = BASE) -> list[float]:
    """How much more accurate one model is than another at the hardest size, seed by seed."""
    rows = [study["models"][each][study["sizes"][-1]]["by_seed"] for each in (model, over)]
    return [one - other for one, other in zip(*rows, strict=True)]


def _trained(figures: Figures) -> Figures:
    return {name: study for name, study in figures.items() if name in STUDIES}


def _in_parts(
    studies: Figures,
    parts: list[Callable[[dict[str, Any]], bool | None]],
    words: Callable[[dict[str, Any]], str],
    measured: Callable[[dict[str, Any]], Estimate],
) -> Finding:
    """Holds if every part does in every study that can say, not at all if none does in any."""

    def both(study: dict[str, Any]) -> bool | None:
        known = [answer for answer in (part(study) for part in parts) if answer is not None]
        return all(known) if known else None

    verdict, found = judged(studies, both, words, SOUND)
    some = [judged(studies, part, words, SOUND)[0] for part in parts]
    partly = verdict == "does not hold" and any(each in ("holds", "holds in part") for each in some)
    sound = last_sound(studies)
    return Finding("holds in part" if partly else verdict, found, None if sound is None else measured(sound))


# --- rules ----------------------------------------------------------------------------------------------------------


def sft_and_rl(figures: Figures) -> Finding:
    """Judge whether SFT ends below the base model and RL above it."""

    def words(study: dict[str, Any]) -> str:
        each = (f"{name} {100 * sum(gains(study, name)) / len(gains(study, name)):+.0f}" for name in (PLAIN, SFT, RL))
        return f"at {study['sizes'][-1]} against base: {', '.join(each)} points"

    return _in_parts(
        _trained(figures),
        [
            lambda study: all(gain < 0 for model in (SFT, PLAIN) for gain in gains(study, model)),
            lambda study: all(gain > 0 for gain in gains(study, RL)),
        ],
        words,
        lambda study: student(gains(study, RL)),
    )


def whose_doing(figures: Figures) -> Finding:
    """Judge whether RL is ahead of SFT on the model's own correct responses."""
    controlled = {name: study for name, study in figures.items() if {OWN, RL} <= study["models"].keys()}
    if not controlled:
        ahead = ""
        if "sweep" in figures:
            study, hardest = figures["sweep"], figures["sweep"]["sizes"][-1]
            ours = rate(study, RL, hardest) or 0.0
            settings = [model for model in study["models"] if model not in (RL, BASE)]
            behind = [model for model in settings if ours > (rate(study, model, hardest) or 0.0)]
            ahead = (
                f"; at {hardest} RL ({ours:.0%}) is ahead of {len(behind)} of {len(settings)} settings of SFT on rows of "
                "ours, which is about the data as much as about the objective"
            )
        return needed(f"{CONTROL}{ahead}")

    def rule(study: dict[str, Any]) -> bool | None:
        ends = [rate(study, model, study["sizes"][-1]) or 0.0 for model in (RL, OWN)]
        return None if max(ends) < FLOOR else all(gain > 0 for gain in gains(study, RL, over=OWN))

    return Finding(
        *judged(
            controlled,
            rule,
            lambda study: f"RL {shown(study, RL)}, own SFT {shown(study, OWN)} %",
            CONTROL,
            check=control_fault,
        )
    )


def dft(figures: Figures) -> Finding:
    """Judge whether DFT is above SFT and not below the base model."""

    def above_sft(study: dict[str, Any]) -> bool | None:
        ends = [rate(study, model, study["sizes"][-1]) or 0.0 for model in (DFT, SFT)]
        return None if max(ends) < FLOOR else all(gain > 0 for gain in gains(study, DFT, over=SFT))

    def words(study: dict[str, Any]) -> str:
        floor = ", where DFT and SFT are both at the floor" if above_sft(study) is None else ""
        return f"DFT {shown(study, DFT)}, SFT {shown(study, SFT)}, base {shown(study, BASE)} % from easiest to hardest{floor}"

    return _in_parts(
        _trained(figures),
        [above_sft, lambda study: sum(gains(study, DFT)) >= 0],
        words,
        lambda study: student(gains(study, DFT)),
    )


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
            judge=whose_doing,
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
    rule="changed",
    model="arithmetic models",
)
