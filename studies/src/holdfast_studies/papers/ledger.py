"""docs/papers.md: a row for every claim, made from the figures that the studies left."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.data import atomic_text
from holdfast.stats import Estimate
from holdfast_studies.papers.figure_files import Kept
from holdfast_studies.papers.measured import StudyRow
from holdfast_studies.papers.running import rows_of
from holdfast_studies.papers.study import Study

PAPERS = {
    "000": "Proof of Safety Gap Theorem (manuscript): SFT against masked SFT on traces with `<UNDO>`",
    "001": "Mathematical Reconciliation: Empirical Results vs. Toy Setup (manuscript): best-of-n with a safety filter",
    "002": "Robust Safety Guarantee for Large Language Models via Preference-Augmented Distributional Alignment (under review)",
    "004": "The Two-Stage Decision-Sampling Hypothesis (arXiv:2601.01580): self-reflection in RL-trained language models",
}
REMARKS = {
    "004": """To be run again: the GRPO models behind `004-table-1`, `004-figure-1` (all but its row on SFT) and `004-cited` (out
of distribution, structure) were trained with TRL 1.16's KL at its defaults. Its gradient is that of KL(policy ‖ reference), now
`kl: loss_k3_ratio`, not that of the paper's low_var_kl (`kl: loss_k3`). The weight was 0.001."""
}
"""What a reader must know of a paper's rows until they have been run again."""
HEAD = """# Papers: the ledger

What four papers claim, and what we found when we ran it. Written by
`holdfast reproduce all --stored docs/results/papers --write docs/papers.md`; a verdict comes from the figures by a rule that
stands in the study's file (`studies/src/holdfast_studies/papers/`) and was written before its first run; later changes are in the
[lab log](lab-log.md). Nothing here is typed in by hand. Intervals are 95 %. Qi et al. 2024, whose constrained SFT [002] builds
on, is cited by name. How each method is implemented: [objectives.md](objectives.md).

Verdicts: *holds*; *holds in part* (the row says where); *does not hold*; *not testable here* (the row says what would be needed).
*Erratum* marks a slip of the paper that the row shows by a number; where `printed` is "not in the paper", the row is ours.
"""


def write_ledger(path: Path, studies: Sequence[Study], kept: dict[str, Kept]) -> None:
    """The whole page."""
    rows = [row for study in studies for row in rows_of(study, kept.get(study.id))]
    numbers = [number for number in PAPERS if any(row.paper == number for row in rows)]
    with atomic_text(path) as file:
        file.write(
            "\n".join([HEAD, _summary(rows), *(_paper(number, rows) for number in numbers), _runs(studies, kept)])
        )


def _summary(rows: Sequence[StudyRow]) -> str:
    verdicts = list(dict.fromkeys(row.verdict for row in rows))
    counts = ", ".join(f"{sum(row.verdict == verdict for row in rows)} *{verdict}*" for verdict in verdicts)
    errata = sum(row.erratum for row in rows)
    return f"{len(rows)} claims: {counts}. {errata} rows are errata.\n"


def _paper(number: str, rows: Sequence[StudyRow]) -> str:
    head = ("id", "claim", "where", "printed", "found", "measured", "verdict", "command")
    remark = [REMARKS[number], ""] if number in REMARKS else []
    lines = [f"## [{number}]", "", PAPERS[number], "", *remark, _line(head), "|---" * len(head) + "|"]
    for row in rows:
        if row.paper == number:
            verdict = f"**{row.verdict}**" + (" (erratum)" if row.erratum else "")
            measured = _figure(row.measured)
            lines.append(
                _line([row.id, row.claim, row.place, row.printed, row.found, measured, verdict, f"`{row.command}`"])
            )
    return "\n".join([*lines, ""])


def _runs(studies: Sequence[Study], kept: dict[str, Kept]) -> str:
    head = ("study", "what", "claims", "scale", "run on", "holdfast", "seconds (beside other work)")
    lines = ["## What ran", "", _line(head), "|---" * len(head) + "|"]
    for study in studies:
        run = kept.get(study.id)
        if run is None:
            ran = ("", "not yet" if study.seconds else "cannot be run", "", "")
        else:
            ran = (run.scale, run.date, run.version, f"{run.seconds:.0f}")
        lines.append(_line([f"`{study.id}`", study.title, str(len(study.claims)), *ran]))
    return "\n".join([*lines, ""])


def _line(cells: Iterable[str]) -> str:
    """A row of a Markdown table. Bars would end a cell, and [b](c) after a number would be read as a link."""
    return "| " + " | ".join(re.sub(r"\](?=\()", "] ", cell.replace("|", "\\|")) for cell in cells) + " |"


def _figure(measured: Estimate | None) -> str:
    if measured is None:
        return ""
    seeds = f", {measured.n} seeds" if measured.n > 1 else ""
    return f"{measured:.4g}{seeds}"
