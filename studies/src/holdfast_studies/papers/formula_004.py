"""[004] Sec. 4.2 and Table 1: what the accuracy formula can validate, and what the printed intervals cover.

Set-up, formula: 200 response processes that break the two-stage model on purpose (accuracy and decisions drift with the attempt
and depend on a hidden difficulty), 2,000 responses each, none cut off. The formula with p_s pooled over attempts, and with p_s
of first attempts, against the accuracy observed on the same responses. Rule: 'agreement validates the decomposition' holds only
if processes that break the model are told apart: if the pooled formula errs by more than 1e-9 on most of them.
Set-up, intervals: the exact coverage of the normal interval at n = 100 for true rates of 1, 2, 4 and 34 per cent. Rule: it is a
95 % interval if it covers at least 93 % at each; and an interval of a rate should lie in [0, 100].
"""

from __future__ import annotations

import math
import random

from scipy.stats import binom

from holdfast.diagnostics import accuracy, calibrate
from holdfast.stats import Estimate
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study

NUM_PROCESSES, NUM_RESPONSES = 200, 2000
TABLE_1_N = 100
RATES = (0.01, 0.02, 0.04, 0.34)


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Errors of both readings of the formula, and coverages."""
    errors = []
    for seed in range(NUM_PROCESSES):
        errors.append(formula_errors(responses(seed)))
        on_progress((seed + 1) / NUM_PROCESSES)
    return {"errors": errors, "coverage": [normal_coverage(rate, TABLE_1_N) for rate in RATES], "low_end": low_end(1)}


def responses(seed: int) -> list[list[bool]]:
    """Was each attempt right, response by response: hard problems, tired attempts, and decisions that know neither."""
    rng = random.Random(seed)
    skill, tiring, patience = rng.uniform(0.2, 0.9), rng.uniform(0.3, 1.0), rng.uniform(0.2, 0.8)
    made = []
    for _ in range(NUM_RESPONSES):
        hard = rng.random() < 0.5
        attempts: list[bool] = []
        while True:
            attempts.append(rng.random() < skill * (0.3 if hard else 1.0) * tiring ** len(attempts))
            if rng.random() > (patience if not attempts[-1] else 0.1) * 0.9 ** len(attempts):
                break
        made.append(attempts)
    return made


def formula_errors(made: list[list[bool]]) -> tuple[float, float]:
    """(with pooled p_s, with first-attempt p_s): predicted minus observed accuracy on the same responses."""
    attempts = [right for response in made for right in response]
    observed = sum(response[-1] for response in made) / len(made)
    stopped_right, rights = sum(response[-1] for response in made), sum(attempts)
    stopped_wrong, wrongs = len(made) - stopped_right, len(attempts) - rights
    pooled = accuracy(rights / len(attempts), stopped_right / rights, 1 - stopped_wrong / wrongs)
    first = calibrate(made).predicted.value
    assert first is not None, "both kinds of attempts were seen"
    return float(pooled) - observed, float(first) - observed


def normal_coverage(rate: float, n: int) -> float:
    """How often p ± 1.96 sqrt(p (1 - p) / n) contains the true rate: summed over every count."""
    covered = 0.0
    for count in range(n + 1):
        share = count / n
        half = 1.959964 * math.sqrt(share * (1 - share) / n)
        covered += float(binom.pmf(count, n, rate)) * (share - half <= rate <= share + half)
    return covered


def low_end(count: int) -> float:
    """In per cent, of the normal interval for so many of 100."""
    share = count / TABLE_1_N
    return 100 * (share - 1.959964 * math.sqrt(share * (1 - share) / TABLE_1_N))


def agreement_validates(figures: Figures) -> Finding:
    """Or is an identity."""
    pooled = [abs(error) for error, _ in figures["errors"]]
    first = [abs(error) for _, error in figures["errors"]]
    found = (
        f"on {len(pooled)} processes that break the model the pooled formula errs by at most {max(pooled):.1g}: an identity; "
        f"with first attempts it errs by {100 * sum(first) / len(first):.1f} points on average, at worst {100 * max(first):.1f}"
    )
    told_apart = sum(error > 1e-9 for error in pooled) > len(pooled) / 2
    return Finding("holds" if told_apart else "does not hold", found, Estimate(max(pooled), n=len(pooled)))


def intervals(figures: Figures) -> Finding:
    """Coverage and range."""
    coverage = figures["coverage"]
    each = ", ".join(f"{rate:.0%}: {share:.0%}" for rate, share in zip(RATES, coverage, strict=True))
    found = f"exact coverage of the normal interval at n = 100 ({each}); for 1 of 100 it begins at {figures['low_end']:.1f} %"
    good = all(share >= 0.93 for share in coverage) and figures["low_end"] >= 0
    some = any(share >= 0.93 for share in coverage)
    return Finding("holds" if good else "holds in part" if some else "does not hold", found, Estimate(min(coverage)))


STUDY = Study(
    id="004-formula",
    paper="004",
    title="The accuracy formula, and Table 1's intervals",
    claims=(
        Claim(
            id="004-formula-validates",
            place="Sec. 4.2, Fig. 1",
            text="close agreement of predicted and observed accuracy validates the two-stage decomposition",
            printed="'validates the two-stage decomposition'",
            judge=agreement_validates,
            erratum=True,
        ),
        Claim(
            id="004-table-1-intervals",
            place="Table 1, E.4",
            text="the printed intervals are 95 % intervals of an accuracy",
            printed="normal approximation, e.g. 1.0 (-1.0, 3.0)",
            judge=intervals,
            erratum=True,
        ),
    ),
    run=run,
    seconds={"cpu": 20},
)
