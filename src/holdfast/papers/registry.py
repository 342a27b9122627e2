"""Every study by its id, in the order of the papers."""

from __future__ import annotations

from holdfast.config import InputError, did_you_mean
from holdfast.papers import (
    appendix_c_004,
    convergence_002,
    curvature_002,
    formula_004,
    preexperiments_002,
    robustness_002,
    statistics_001,
    table_statistics_002,
)
from holdfast.papers.study import Study

_ALL: tuple[Study, ...] = (
    statistics_001.STUDY,
    preexperiments_002.STUDY,
    table_statistics_002.STUDY,
    convergence_002.STUDY,
    robustness_002.STUDY,
    curvature_002.STUDY,
    appendix_c_004.STUDY,
    formula_004.STUDY,
)
STUDIES: dict[str, Study] = {study.id: study for study in _ALL}


def find_study(name: str) -> Study:
    """By id; a clear line for an id that is not there."""
    if name not in STUDIES:
        raise InputError(
            f"study '{name}': no such study{did_you_mean(name, STUDIES) or '; `holdfast reproduce` lists them'}"
        )
    return STUDIES[name]
