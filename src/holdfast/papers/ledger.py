"""docs/papers.md: a row for every claim, made from the rows that the studies gave."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.records.studies import Measured, StudyRow
from holdfast.records.writing import atomic_text

PAPERS = {
    "000": "Proof of Safety Gap Theorem (manuscript): SFT against masked SFT on traces with `<UNDO>`",
    "001": "Mathematical Reconciliation: Empirical Results vs. Toy Setup (manuscript): best-of-n with a safety filter",
    "002": "Robust Safety Guarantee for Large Language Models via Preference-Augmented Distributional Alignment (under review)",
    "004": "The Two-Stage Decision-Sampling Hypothesis (arXiv:2601.01580): self-reflection in RL-trained language models",
}
HEAD = """# Papers: the ledger

What four papers claim, and what we found when we ran it. Written by `holdfast reproduce all --write docs/papers.md`; a verdict
comes from the figures by a rule that stands in the study's file (`src/holdfast/papers/`) and was written before its first run.
Nothing here is typed in by hand. Intervals are 95 %.

Verdicts: *holds*; *holds in part* (the row says where); *does not hold*; *not testable here* (the row says what would be needed).
"""


def write_ledger(path: Path, rows: Sequence[StudyRow]) -> None:
    """The whole page."""
    with atomic_text(path) as file:
        file.write("\n".join([HEAD, _summary(rows), *(_paper(number, rows) for number in PAPERS)]))


def _summary(rows: Sequence[StudyRow]) -> str:
    verdicts = list(dict.fromkeys(row.verdict for row in rows))
    counts = ", ".join(f"{sum(row.verdict == verdict for row in rows)} *{verdict}*" for verdict in verdicts)
    return f"{len(rows)} claims: {counts}.\n"


def _paper(number: str, rows: Sequence[StudyRow]) -> str:
    lines = [f"## [{number}]", "", PAPERS[number], ""]
    lines += ["| claim | where | printed | found | measured | verdict | command |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        if row.paper == number:
            cells = (
                row.claim,
                row.place,
                row.printed,
                row.found,
                _figure(row.measured),
                f"**{row.verdict}**",
                f"`{row.command}`",
            )
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, ""])


def _figure(measured: Measured | None) -> str:
    if measured is None:
        return ""
    spread = "" if measured.low is None or measured.high is None else f" [{measured.low:.4g}, {measured.high:.4g}]"
    seeds = f", {measured.seeds} seeds" if measured.seeds > 1 else ""
    return f"{measured.value:.4g}{spread}{seeds}"
