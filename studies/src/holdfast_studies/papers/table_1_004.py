"""[004] Table 1 in small: base, SFT without and with reflection, and RL, from easy sizes to hard ones.

Set-up: every arithmetic study there is (`holdfast diagnose decisions` on studies/configs/arithmetic/): micro, fused and beside
(base 5, n x 1, a quarter of a million parameters), h200 (base 10, 3x3 to 3x9, ten million); three seeds, temperature 1, all
responses counted (the paper's Fig. 1 leaves out those that were cut off). Post-training sees 4x1 and 5x1, or 4x5 and 5x4, only;
the base model has seen all sizes, which the paper's had not. SFT is the heavy setting; the sweep has gentler ones.
Measures: accuracy by model and size; differences seed by seed. A study whose SFT did not learn its own training size, or whose
RL is below its base there, is left out of every rule (``decision_runs.fault``).
Rules. Far: at the hardest size RL minus SFT with reflection is above zero in every seed and RL has at least twice the
accuracy. Near: at the easiest size, here one that was trained on, the two differ by at most 10 points. Reflection: SFT with
reflection beats base and SFT without at every size. Decisions: at the hardest size *out of distribution* where all rates are
known (intervals of at most 30 points), exchanging decisions explains more of RL's lead over SFT with reflection than exchanging
attempts (Shapley means of the formula); of the sweep's settings the one that is best there. Decisions against base: the same of
RL's lead over its own base model. Sampling: from the easiest to the hardest size RL's p_s falls by more than its p_dC and p_dW
do. Each holds if it does in every study that can say, in part if in some. Changed after figures were seen (2026-11-16): faults,
the sizes of Decisions, fused, beside and the sweep.
"""

from __future__ import annotations

from typing import Any

from holdfast.diagnostics import accuracy
from holdfast.stats import student
from holdfast_studies.papers.decision_runs import (
    BASE,
    PLAIN,
    RL,
    SFT,
    STUDIES,
    judged,
    last_sound,
    opponent,
    rate,
    read_runs,
    shown,
    unseen,
)
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study

WIDEST = 0.3
RATES = ("p_s", "p_dC", "p_dW")
SOUND = "a study whose SFT learns its training sizes and whose RL is not below its base there"


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Read what the arithmetic studies found."""
    return read_runs(*STUDIES, "sweep")


def differences(study: dict[str, Any], size: str) -> list[float]:
    """RL's accuracy minus that of SFT with reflection, seed by seed."""
    rows = [study["models"][model][size]["by_seed"] for model in (RL, SFT)]
    return [one - other for one, other in zip(*rows, strict=True)]


def known(study: dict[str, Any], model: str, size: str, name: str) -> bool:
    """Is the rate there, with an interval of at most 30 points?"""
    figure = study["models"][model][size][name]
    return figure is not None and figure[2] - figure[1] <= WIDEST


def shapley(study: dict[str, Any], other: str) -> tuple[str, float, float] | None:
    """(size, what better attempts explain, what better decisions explain) of RL's lead over another model.

    At the hardest size out of distribution where all six rates are known; None if there is none.
    """
    for size in reversed(unseen(study)):
        if all(known(study, model, size, name) for model in (other, RL) for name in RATES):
            rates = [[float(rate(study, model, size, name) or 0.0) for name in RATES] for model in (other, RL)]
            (s0, *d0), (s1, *d1) = rates
            value = {(i, j): float(accuracy(s, *d)) for i, s in enumerate((s0, s1)) for j, d in enumerate((d0, d1))}
            sampling = (value[1, 0] - value[0, 0] + value[1, 1] - value[0, 1]) / 2
            return size, sampling, value[1, 1] - value[0, 0] - sampling
    return None


def _trained(figures: Figures) -> Figures:
    return {name: study for name, study in figures.items() if name != "sweep"}


# --- rules ----------------------------------------------------------------------------------------------------------


def far(figures: Figures) -> Finding:
    """Judge whether RL is ahead at the hardest size."""
    studies = _trained(figures)

    def rule(study: dict[str, Any]) -> bool:
        hardest = study["sizes"][-1]
        one, other = (rate(study, model, hardest) or 0.0 for model in (RL, SFT))
        return all(each > 0 for each in differences(study, hardest)) and one >= 2 * other

    verdict, found = judged(
        studies, rule, lambda study: f"RL {shown(study, RL)}, SFT with reflection {shown(study, SFT)} %", SOUND
    )
    sound = last_sound(studies)
    return Finding(verdict, found, None if sound is None else student(differences(sound, sound["sizes"][-1])))


def near(figures: Figures) -> Finding:
    """Judge whether RL and SFT are alike at the easiest size."""
    studies = _trained(figures)

    def rule(study: dict[str, Any]) -> bool:
        one, other = (rate(study, model, study["sizes"][0]) or 0.0 for model in (RL, SFT))
        return abs(one - other) <= 0.1

    def words(study: dict[str, Any]) -> str:
        size = study["sizes"][0]
        trained = " (trained on)" if size in study["trained"] else ""
        one, other = (rate(study, model, size) or 0.0 for model in (RL, SFT))
        return f"at {size}{trained} RL {one:.0%}, SFT with reflection {other:.0%}"

    verdict, found = judged(studies, rule, words, SOUND)
    sound = last_sound(studies)
    return Finding(verdict, found, None if sound is None else student(differences(sound, sound["sizes"][0])))


def reflection(figures: Figures) -> Finding:
    """Judge whether SFT with reflection beats SFT without it and the base model."""

    def ahead(study: dict[str, Any]) -> list[str]:
        rates = {model: [rate(study, model, size) or 0.0 for size in study["sizes"]] for model in (SFT, PLAIN, BASE)}
        rows = zip(study["sizes"], rates[SFT], rates[PLAIN], rates[BASE], strict=True)
        return [size for size, sft, plain, base in rows if sft > max(plain, base)]

    def words(study: dict[str, Any]) -> str:
        return (
            f"ahead at {', '.join(ahead(study)) or 'no size'} (with {shown(study, SFT)}, without {shown(study, PLAIN)}, "
            f"base {shown(study, BASE)} %)"
        )

    studies = _trained(figures)
    verdict, found = judged(studies, lambda study: ahead(study) == study["sizes"], words, SOUND)
    somewhere, _ = judged(studies, lambda study: bool(ahead(study)), words, SOUND)
    return Finding("holds in part" if verdict == "does not hold" != somewhere else verdict, found)


def decisions(figures: Figures) -> Finding:
    """Judge whether decisions explain more of RL's lead over SFT than attempts do."""
    return _made_of(figures, opponent)


def decisions_over_base(figures: Figures) -> Finding:
    """What RL's lead over its own base model is made of."""
    return _made_of(_trained(figures), lambda study: BASE)


def _made_of(figures: Figures, other: Any) -> Finding:
    def rule(study: dict[str, Any]) -> bool | None:
        parts = shapley(study, other(study))
        return None if parts is None else parts[2] > parts[1]

    def words(study: dict[str, Any]) -> str:
        parts = shapley(study, other(study))
        if parts is None:
            return f"no size out of distribution at which all rates of RL and {other(study)} are known"
        points = f"attempts explain {100 * parts[1]:+.0f} points, decisions {100 * parts[2]:+.0f}"
        return f"at {parts[0]} against {other(study)} {points}"

    need = f"{SOUND}, and a size out of distribution at which both are sometimes right"
    return Finding(*judged(figures, rule, words, need))


def limited_by_sampling(figures: Figures) -> Finding:
    """Judge which rate falls with difficulty."""

    def falls(study: dict[str, Any]) -> list[float] | None:
        ends = [[rate(study, RL, size, name) for name in RATES] for size in (study["sizes"][0], study["sizes"][-1])]
        if any(value is None for row in ends for value in row):
            return None
        return [float(a or 0) - float(b or 0) for a, b in zip(*ends, strict=True)]

    def rule(study: dict[str, Any]) -> bool | None:
        found = falls(study)
        return None if found is None else found[0] > max(found[1:])

    def words(study: dict[str, Any]) -> str:
        rows = (f"{name} {shown(study, RL, name)}" for name in RATES)
        return f"RL {'; '.join(rows)} % from easiest to hardest"

    return Finding(*judged(_trained(figures), rule, words, SOUND))


STUDY = Study(
    id="004-table-1",
    paper="004",
    title="Table 1: accuracy by training and size",
    claims=(
        Claim(
            id="004-table-1-far",
            place="Table 1, 3x6 to 3x9",
            text="far out of distribution RL is much more accurate than SFT with reflection",
            printed="3x9: RL 34.0, SFT with reflection 0.0",
            judge=far,
        ),
        Claim(
            id="004-table-1-near",
            place="Table 1, 3x3 to 3x5",
            text="on easy sizes RL and SFT with reflection are alike",
            printed="3x3: 98.0 and 96.0",
            judge=near,
        ),
        Claim(
            id="004-table-1-reflection",
            place="Sec. 4.1",
            text="SFT with reflection beats base and SFT without it at every size",
            printed="'across all task difficulties' (its own 3x7 to 3x9: 4, 1, 0 against base 4, 3, 1)",
            judge=reflection,
            erratum=True,
        ),
        Claim(
            id="004-table-1-decisions",
            place="Abstract, Sec. 4.2",
            text="out of distribution RL's lead over SFT comes from better decisions more than from better attempts",
            printed="'primarily from improved decision-making'",
            judge=decisions,
        ),
        Claim(
            id="004-table-1-decisions-over-base",
            place="Sec. 1, contribution (ii)",
            text="out of distribution RL improves a model's decisions more than its attempts",
            printed="'RL improves pi_d more than pi_sample'",
            judge=decisions_over_base,
            rule="after",
        ),
        Claim(
            id="004-table-1-sampling",
            place="Sec. 1, contribution (iii)",
            text="out of distribution RL is limited by sampling rather than by deciding",
            printed="'primarily limited by pi_sample'",
            judge=limited_by_sampling,
        ),
    ),
    run=run,
    seconds={"cpu": 1},
    rule="changed",
    model="arithmetic models",
)
