"""Audits: one cell, and the matrix of attacks x defences x seeds."""

from holdfast_studies.candidates import find_defence

from holdfast.attacks.cell import run_cell
from holdfast.attacks.cell_audit import Figures, audit
from holdfast.attacks.cell_files import read_cell, write_cell
from holdfast.attacks.defences import DEFENCES, Defence, OwnStream, Repair
from holdfast.attacks.keys import cell_key
from holdfast.attacks.matrix import run_matrix
from holdfast.attacks.scale import Scale

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
    "read_cell",
    "run_cell",
    "run_matrix",
    "write_cell",
]
