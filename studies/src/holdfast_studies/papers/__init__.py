"""The papers, put to the test: one file per table, figure or theorem, and the ledger of claims."""

from holdfast_studies.papers.ledger import write_ledger
from holdfast_studies.papers.registry import find_study, studies
from holdfast_studies.papers.running import rows_of, run_studies, stored
from holdfast_studies.papers.study import MACHINES

__all__ = ["MACHINES", "find_study", "rows_of", "run_studies", "stored", "studies", "write_ledger"]
