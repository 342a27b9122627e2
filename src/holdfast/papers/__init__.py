"""The papers, put to the test: one file per table, figure or theorem, and the ledger of claims."""

from holdfast.papers.ledger import write_ledger
from holdfast.papers.registry import STUDIES, find_study
from holdfast.papers.running import figures_of, rows_of
from holdfast.papers.study import SCALES, Claim, Finding, Scale, Study

__all__ = [
    "SCALES",
    "STUDIES",
    "Claim",
    "Finding",
    "Scale",
    "Study",
    "figures_of",
    "find_study",
    "rows_of",
    "write_ledger",
]
