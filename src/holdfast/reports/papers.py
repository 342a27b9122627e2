"""The ledger of claims as tables: what a paper prints, what was found, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.reports.reading import finite
from holdfast.reports.text import named, shown

MAX_ROWS = 1000


@dataclass(frozen=True, slots=True)
class ClaimLine:
    """One row of the ledger as text."""

    id: str
    claim: str
    place: str
    printed: str
    found: str
    measured: str
    verdict: str
    erratum: bool
    command: str


@dataclass(frozen=True, slots=True)
class PapersPart:
    """All rows by paper, and how many there are of each verdict."""

    counts: str
    papers: dict[str, list[ClaimLine]]


def papers_part(rows: Sequence[Mapping[str, object]]) -> PapersPart:
    """Rows as ``StudyRow.row()`` writes them; what a row lacks is left empty."""
    papers: dict[str, list[ClaimLine]] = {}
    for row in rows[:MAX_ROWS]:
        papers.setdefault(named(str(row.get("paper") or "?"), 20), []).append(_line(row))
    verdicts = Counter(line.verdict for lines in papers.values() for line in lines)
    return PapersPart(", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()), papers)


def _line(row: Mapping[str, object]) -> ClaimLine:
    text = {key: shown(row.get(key) or "", 600) for key in ("claim", "place", "printed", "found", "verdict", "command")}
    return ClaimLine(
        id=named(str(row.get("id") or "?")), measured=_measured(row), erratum=row.get("erratum") is True, **text
    )


def _measured(row: Mapping[str, object]) -> str:
    value, low, high, seeds = (finite(row.get(key)) for key in ("measured", "low", "high", "seeds"))
    if value is None:
        return ""
    spread = "" if low is None or high is None else f" [{low:.4g}, {high:.4g}]"
    return f"{value:.4g}{spread}" + (f", {seeds:.0f} seeds" if seeds is not None and seeds > 1 else "")
