"""[001] What its text gives no means to test."""

from __future__ import annotations

from holdfast_studies.papers.study import untestable

STUDY = untestable(
    "001-untestable",
    "001",
    "What the manuscript's text gives no means to test",
    (
        "Claim 1",
        "the p-value comes from a test on the runs",
        "p < 0.05",
        "the name of the test and the outcome of every task; what 20 tasks can give stands in 001-capability-significance",
    ),
    (
        "Section 3",
        "the mean rewards of baseline and oversight are those of its runs",
        "0.76 and 0.85",
        "the answers that were scored; the manuscript says they were mock answers, and prints one",
    ),
    (
        "Distribution Shift Analysis",
        "the mass moves toward better and safer solutions",
        "[0.3, 0.2, 0.2, 0.15, 0.15] -> [0.1, 0.1, 0.3, 0.3, 0.2]",
        "what the five bins are: neither a quality nor a safety is printed for any of them",
    ),
    (
        "Tradeoff Characterization",
        "the baseline has a lower safety awareness",
        "no figure",
        "a refusal rate of the baseline: only the overseen one is printed",
    ),
)
