"""Attacks, defences, and the matrix of attacks x defences x seeds. Threat models in docs/attacks.md."""

from holdfast.attacks.adaptive import variants
from holdfast.attacks.attack import Attack, Stage, chain
from holdfast.attacks.cell import run_cell
from holdfast.attacks.cell_audit import Figures, audit
from holdfast.attacks.cell_files import read_cell, write_cell
from holdfast.attacks.choosing import chosen
from holdfast.attacks.defences import DEFENCES, Defence, OwnStream, Repair, find_defence
from holdfast.attacks.keys import cell_key
from holdfast.attacks.matrix import run_matrix
from holdfast.attacks.matrix_table import MEASURE_TITLES, cell_text, legend, ran_alone, rows_of
from holdfast.attacks.paired import Paired, paired_tests
from holdfast.attacks.real_answers import answered_by, load_for_use
from holdfast.attacks.real_cell import against
from holdfast.attacks.real_grid import (
    FAMILIES,
    REAL_ATTACKS,
    REAL_DEFENCES,
    find_real_attack,
    find_real_defence,
    real_scale,
)
from holdfast.attacks.registry import ATTACKS, find_attack
from holdfast.attacks.results_page import results_page
from holdfast.attacks.rows import Backdoor, BenignDrift, Data, HarmfulExamples, IdentityShift, Mixture
from holdfast.attacks.scale import Scale
from holdfast.attacks.workers import work_through
from holdfast.attacks.worst import Worst, worst_cases

__all__ = [
    "ATTACKS",
    "DEFENCES",
    "FAMILIES",
    "MEASURE_TITLES",
    "REAL_ATTACKS",
    "REAL_DEFENCES",
    "Attack",
    "Backdoor",
    "BenignDrift",
    "Data",
    "Defence",
    "Figures",
    "HarmfulExamples",
    "IdentityShift",
    "Mixture",
    "OwnStream",
    "Paired",
    "Repair",
    "Scale",
    "Stage",
    "Worst",
    "against",
    "answered_by",
    "audit",
    "cell_key",
    "cell_text",
    "chain",
    "chosen",
    "find_attack",
    "find_defence",
    "find_real_attack",
    "find_real_defence",
    "legend",
    "load_for_use",
    "paired_tests",
    "ran_alone",
    "read_cell",
    "real_scale",
    "results_page",
    "rows_of",
    "run_cell",
    "run_matrix",
    "variants",
    "work_through",
    "worst_cases",
    "write_cell",
]
