"""Attacks, defences, and the matrix of attacks x defences x seeds. Threat models in docs/attacks.md."""

from holdfast.attacks.asking import Asked, against, ask
from holdfast.attacks.attack import Attack, Stage, chain
from holdfast.attacks.cell import run_cell
from holdfast.attacks.cell_files import read_cell, write_cell
from holdfast.attacks.choosing import chosen, near_the_best, worst_rates
from holdfast.attacks.defences import (
    DEFENCES,
    HELD_ON_FILES,
    KEEP_ON_FILES,
    SAFETY_ON_FILES,
    Defence,
    OwnStream,
    Repair,
    find_defence,
)
from holdfast.attacks.file_setting import FileSetting, file_scale
from holdfast.attacks.file_tasks import parts_of
from holdfast.attacks.keys import cell_key
from holdfast.attacks.matrix import run_matrix
from holdfast.attacks.matrix_table import MEASURE_TITLES, cell_text, legend, ran_alone, rows_of, shown_measures
from holdfast.attacks.paired import Paired, paired_tests
from holdfast.attacks.public import Matrix, attack, run_config
from holdfast.attacks.registry import ATTACKS, find_attack
from holdfast.attacks.results_page import results_page
from holdfast.attacks.rows import (
    Backdoor,
    BenignDrift,
    Data,
    HarmfulExamples,
    IdentityShift,
    Mixture,
    OpeningsOnly,
    Restyled,
    Reworded,
    SelfWritten,
)
from holdfast.attacks.run_time_answers import answered_by, load_for_use
from holdfast.attacks.scale import Scale
from holdfast.attacks.setting import Setting
from holdfast.attacks.tuning import tune
from holdfast.attacks.variant import variants
from holdfast.attacks.workers import work_through
from holdfast.attacks.world_setting import WorldSetting
from holdfast.attacks.worst import Worst, worst_cases

__all__ = [
    "ATTACKS",
    "DEFENCES",
    "HELD_ON_FILES",
    "KEEP_ON_FILES",
    "MEASURE_TITLES",
    "SAFETY_ON_FILES",
    "Asked",
    "Attack",
    "Backdoor",
    "BenignDrift",
    "Data",
    "Defence",
    "FileSetting",
    "HarmfulExamples",
    "IdentityShift",
    "Matrix",
    "Mixture",
    "OpeningsOnly",
    "OwnStream",
    "Paired",
    "Repair",
    "Restyled",
    "Reworded",
    "Scale",
    "SelfWritten",
    "Setting",
    "Stage",
    "WorldSetting",
    "Worst",
    "against",
    "answered_by",
    "ask",
    "attack",
    "cell_key",
    "cell_text",
    "chain",
    "chosen",
    "file_scale",
    "find_attack",
    "find_defence",
    "legend",
    "load_for_use",
    "near_the_best",
    "paired_tests",
    "parts_of",
    "ran_alone",
    "read_cell",
    "results_page",
    "rows_of",
    "run_cell",
    "run_config",
    "run_matrix",
    "shown_measures",
    "tune",
    "variants",
    "work_through",
    "worst_cases",
    "worst_rates",
    "write_cell",
]
