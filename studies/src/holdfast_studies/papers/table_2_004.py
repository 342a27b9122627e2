"""[004] Table 2 and what it cites, in small: does SFT on corrected errors teach a model to correct its own?

Set-up: studies/configs/arithmetic/corrective.yaml: SFT with honest checks on 2,000 rows of which 0, 50 or 100 % begin with an
error that is found and put right; three seeds; the cited paper's models had 7 and 8 billion parameters and its data came from
long reasoning traces. Measures: p(F -> T), the last attempt right given a wrong first one, by share of corrective rows and
size; and the accuracy gained from 0 to 100 %, split into first attempts and what later attempts add (both observed).
Rules: "flat" holds if p(F -> T) differs by at most 5 points between the three shares at every size, in part if at some
size; a size at which it is below 2 % at every share is at the floor and counts for nothing. "First answers gain, reflection does
not" holds if at the easiest size first attempts gain more than later ones add; not testable if models of neither share are right
there. Changed after figures were seen: the floors (2026-11-16, 2026-11-17).
"""

from __future__ import annotations

from typing import Any

from holdfast.stats import student
from holdfast_studies.papers.decision_runs import rate, read_runs, shown
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study, needed, verdict_of

SHARES = ("corrective_0", "corrective_50", "corrective_100")
FLAT = 0.05
FLOOR = 0.02


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Read what the arithmetic study found."""
    return read_runs("corrective")


def spread(study: dict[str, Any], size: str) -> float:
    """Largest minus smallest p(F -> T) over the shares."""
    values = [rate(study, model, size, "wrong_to_right") or 0.0 for model in SHARES]
    return max(values) - min(values)


def at_floor(study: dict[str, Any], size: str) -> bool:
    """Nothing is corrected at any share: such a size is flat whatever the data."""
    return all((rate(study, model, size, "wrong_to_right") or 0.0) < FLOOR for model in SHARES)


# --- rules ----------------------------------------------------------------------------------------------------------


def flat(figures: Figures) -> Finding:
    """Judge whether p(F -> T) changes with the share of corrective rows."""
    study = figures["corrective"]
    each = "; ".join(f"{model[11:]} %: {shown(study, model, 'wrong_to_right')}" for model in SHARES)
    found = f"p(F to T) in per cent at {', '.join(study['sizes'])}, by share of corrective rows: {each}"
    floors = [size for size in study["sizes"] if at_floor(study, size)]
    if len(floors) == len(study["sizes"]):
        return needed(f"a model that sometimes corrects an error; {found}")
    within = [spread(study, size) <= FLAT for size in study["sizes"] if size not in floors]
    verdict = verdict_of(within)
    return Finding(verdict, f"{found}; at the floor, so not counted: {', '.join(floors)}" if floors else found)


def first_answers_gain(figures: Figures) -> Finding:
    """Judge whether first answers gain more than reflection does (printed: 3.75 points against 0.3)."""
    study = figures["corrective"]
    size = study["sizes"][0]
    first = [rate(study, model, size, "p_s") or 0.0 for model in (SHARES[0], SHARES[-1])]
    last = [rate(study, model, size) or 0.0 for model in (SHARES[0], SHARES[-1])]
    if max(last) < FLOOR:
        return needed(f"a model that is right now and then at {size}")
    gain = first[1] - first[0]
    later = (last[1] - first[1]) - (last[0] - first[0])
    found = (
        f"at {size}, from 0 to 100 % corrective rows, first attempts gain {100 * gain:+.1f} points and later ones add "
        f"{100 * later:+.1f}"
    )
    seeds = [study["models"][model][size]["by_seed"] for model in (SHARES[0], SHARES[-1])]
    measured = student([b - a for a, b in zip(*seeds, strict=True)])
    return Finding("holds" if gain > later else "does not hold", found, measured)


STUDY = Study(
    id="004-table-2",
    paper="004",
    title="Table 2: corrective rows in SFT data",
    claims=(
        Claim(
            id="004-table-2-flat",
            place="Table 2 (from Kang et al.)",
            text="p(F to T) stays flat however many rows of the SFT data correct an error",
            printed="3.6 to 5.8 % at 0, 50 and 100 %",
            judge=flat,
            rule="changed",
        ),
        Claim(
            id="004-table-2-first-answers",
            place="Sec. 5.1 (from Kang et al.)",
            text="what reflection-rich SFT data gain comes from first answers, not from reflection",
            printed="3.75 points against 0.3",
            judge=first_answers_gain,
            rule="changed",
        ),
    ),
    run=run,
    seconds={"cpu": 1},
    model="arithmetic models",
)
