"""[002] Tables 3 and 4: what the printed figures can say by themselves. Nothing is trained here.

Set-up: the printed rates as counts out of the 330 prompts of the benchmark that the paper's attacks are measured on. Measured:
95 % Wilson half-widths, Fisher's exact p between CSFT and CSFT+PA, relative changes recomputed. Rules: '±0.5' holds if every
half-width is 0.5 points to the printed digit; the gains hold if all four p are below 0.05, in part if some are; a relative
change holds if it rounds to the printed digits. Beside Qi et al.: 'the SFT and CSFT columns are the published ones' holds if all
eight rates are, in part if some are (arXiv:2406.05946, its table of the constrained objective, Llama-2-7B-Chat; mean and standard
deviation of three rounds). The SFT column is equal in every row, so a CSFT rate that differs was not measured under the same
training. Added on 2026-11-16, after both tables had been seen.
"""

from __future__ import annotations

from scipy.stats import fisher_exact

from holdfast.stats import Estimate, wilson
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study, verdict_of

NUM_PROMPTS = 330
TABLE_3 = {  # attack: SFT, CSFT, CSFT+PA
    "harmful examples": (88.9, 3.6, 2.7),
    "identity shifting": (79.5, 8.1, 7.5),
    "backdoor, no trigger": (7.6, 1.9, 1.5),
    "backdoor, trigger": (90.9, 6.9, 3.3),
}
QI_2024 = {  # attack: their SFT and CSFT, per cent and standard deviation
    "harmful examples": ((88.9, 1.2), (4.6, 0.5)),
    "identity shifting": ((79.5, 2.3), (8.1, 0.1)),
    "backdoor, no trigger": ((7.6, 1.1), (1.9, 0.2)),
    "backdoor, trigger": ((90.9, 1.4), (10.9, 2.8)),
}
PRINTED_GAINS = {"harmful examples": 25.0, "identity shifting": 7.4, "backdoor, trigger": 52.3}
TABLE_4 = {"SAMSum": (50.1, 47.1), "SQL": (98.5, 96.3)}  # CSFT, CSFT+PA
PRINTED_LOSSES = {"SAMSum": 6.0, "SQL": 2.2}


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Compute everything from the printed figures."""
    rows = {}
    for attack, rates in TABLE_3.items():
        counts = [round(rate / 100 * NUM_PROMPTS) for rate in rates]
        rows[attack] = {
            "half_widths": [_half_width(count) for count in counts],
            "fisher_p": float(fisher_exact([[count, NUM_PROMPTS - count] for count in counts[1:]]).pvalue),
            "gain": 100 * (1 - rates[2] / rates[1]),
        }
    losses = {task: 100 * (1 - after / before) for task, (before, after) in TABLE_4.items()}
    published = {
        attack: [
            [ours - theirs, deviation] for ours, (theirs, deviation) in zip(TABLE_3[attack], columns, strict=False)
        ]
        for attack, columns in QI_2024.items()
    }
    return {"attacks": rows, "losses": losses, "minus_published": published}


def _half_width(count: int) -> float:
    interval = wilson(count, NUM_PROMPTS)
    return 100 * (interval.high - interval.low) / 2


def plus_minus(figures: Figures) -> Finding:
    """Judge whether an interval of half a point is right: every rate has the same '±0.5'."""
    widths = [width for row in figures["attacks"].values() for width in row["half_widths"]]
    found = f"half-widths of a 95 % interval on {NUM_PROMPTS} prompts run from {min(widths):.1f} to {max(widths):.1f} points"
    return Finding(
        "holds" if all(round(width, 1) == 0.5 for width in widths) else "does not hold", found, Estimate(max(widths))
    )


def gains_are_real(figures: Figures) -> Finding:
    """Judge whether CSFT+PA answers fewer than CSFT, row by row."""
    p = {attack: row["fisher_p"] for attack, row in figures["attacks"].items()}
    num = sum(value < 0.05 for value in p.values())
    found = "Fisher's exact p: " + ", ".join(f"{attack} {value:.2g}" for attack, value in p.items())
    if num == len(p):
        return Finding("holds", found, Estimate(max(p.values())))
    return Finding("holds in part" if num else "does not hold", found, Estimate(min(p.values())))


def columns_are_published(figures: Figures) -> Finding:
    """Judge whether the columns of SFT and CSFT are those that Qi et al. published."""
    off = {attack: [round(row[0], 1) for row in rows] for attack, rows in figures["minus_published"].items()}
    differ = [attack for attack, (_, csft) in off.items() if csft]
    same = sum(not value for row in off.values() for value in row)
    clauses = "; ".join(
        f"{attack}: {TABLE_3[attack][1]} printed, {QI_2024[attack][1][0]} published" for attack in differ
    )
    sft = "equal" if not any(row[0] for row in off.values()) else "different"
    found = f"{same} of 8 rates are Qi et al.'s, the SFT column is {sft}; CSFT differs in {len(differ)} of 4"
    found += f" ({clauses})" if differ else ""
    spreads = [deviation for rows in figures["minus_published"].values() for _, deviation in rows]
    found += f"; they print deviations of {min(spreads)} to {max(spreads)}, [002] 0.5 everywhere"
    verdict = "holds" if same == 8 else "holds in part" if same else "does not hold"
    return Finding(verdict, found, Estimate(min(row[1] for row in off.values())))  # type: ignore[arg-type]


def gains_are_computed(figures: Figures) -> Finding:
    """Judge the printed gains, 25.0, 7.4 and 52.3 per cent."""
    got = {attack: figures["attacks"][attack]["gain"] for attack in PRINTED_GAINS}
    return _as_printed(got, PRINTED_GAINS)


def losses_are_computed(figures: Figures) -> Finding:
    """Judge the printed losses, 6.0 and 2.2 per cent."""
    return _as_printed(figures["losses"], PRINTED_LOSSES)


def _as_printed(got: dict[str, float], printed: dict[str, float]) -> Finding:
    right = [round(got[name], 1) == value for name, value in printed.items()]
    found = ", ".join(f"{name} {got[name]:.2f} %" for name in printed)
    return Finding(verdict_of(right), found)


STUDY = Study(
    id="002-tables-statistics",
    paper="002",
    title="What Tables 3 and 4 can say by their own figures",
    claims=(
        Claim(
            id="002-table-3-intervals",
            place="Table 3",
            text="every attack success rate is known to within half a point",
            printed="±0.5 in all twelve cells",
            judge=plus_minus,
            erratum=True,
        ),
        Claim(
            id="002-table-3-gains",
            place="Table 3, 5.3.2",
            text="CSFT+PA answers fewer requests than CSFT under each of the four attacks",
            printed="2.7 < 3.6, 7.5 < 8.1, 1.5 < 1.9, 3.3 < 6.9",
            judge=gains_are_real,
            erratum=True,
        ),
        Claim(
            id="002-table-3-published",
            place="Table 3 against arXiv:2406.05946",
            text="the SFT and CSFT columns are those that Qi et al. published for this model and these attacks",
            printed="CSFT 3.6, 8.1, 1.9, 6.9",
            judge=columns_are_published,
            erratum=True,
            rule="after",
        ),
        Claim(
            id="002-table-3-relative",
            place="5.3.2",
            text="relative gains over CSFT",
            printed="25.0 %, 7.4 %, 52.3 %",
            judge=gains_are_computed,
            erratum=True,
        ),
        Claim(
            id="002-table-4-relative",
            place="Table 4, 5.3.3",
            text="relative losses of utility against CSFT",
            printed="6.0 % (SAMSum), 2.2 % (SQL)",
            judge=losses_are_computed,
        ),
    ),
    run=run,
    seconds={"cpu": 1},
    model="printed figures",
)
