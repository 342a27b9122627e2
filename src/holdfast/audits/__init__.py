"""Audits: one cell, and the matrix of attacks x defences x seeds."""

from holdfast.audits.audit import Figures, audit
from holdfast.audits.candidates import find_defence
from holdfast.audits.cell import run_cell
from holdfast.audits.cell_files import read_cell, write_cell
from holdfast.audits.defences import DEFENCES, Defence, OwnStream, Repair
from holdfast.audits.intervals import pooled, rate, rate_of
from holdfast.audits.keys import cell_key
from holdfast.audits.matrix import run_matrix
from holdfast.audits.scale import Scale

__all__ = [
    "DEFENCES",
    "Defence",
    "Figures",
    "OwnStream",
    "Repair",
    "Scale",
    "audit",
    "cell_key",
    "find_defence",
    "pooled",
    "rate",
    "rate_of",
    "read_cell",
    "run_cell",
    "run_matrix",
    "write_cell",
]
