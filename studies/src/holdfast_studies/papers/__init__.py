"""The papers, put to the test: one file per table, figure or theorem, and the ledger of claims."""

from holdfast_studies.papers.figure_files import Kept, kept_figures, make_figures
from holdfast_studies.papers.ledger import write_ledger
from holdfast_studies.papers.registry import find_study, studies
from holdfast_studies.papers.running import Ran, rows_of, run_studies, stored
from holdfast_studies.papers.study import MACHINES, Claim, Finding, Machine, Study

__all__ = [
    "MACHINES",
    "Claim",
    "Finding",
    "Kept",
    "Machine",
    "Ran",
    "Study",
    "find_study",
    "kept_figures",
    "make_figures",
    "rows_of",
    "run_studies",
    "stored",
    "studies",
    "write_ledger",
]
