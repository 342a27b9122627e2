"""Why a model does what it does: calibration of decisions, gradients by role, and drift from an anchor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.config.lazily import exported_later
from holdfast.diagnostics.attempts import Attempts, Splitter, lexical_splitter, token_splitter
from holdfast.diagnostics.attributed import Attributed, attribute_transcripts
from holdfast.diagnostics.calibration import Calibration, calibrate
from holdfast.diagnostics.counts import COLUMN, ratio
from holdfast.diagnostics.decomposition import Decomposition, decompose
from holdfast.diagnostics.drifted import Drifted, answers_to_see, least_kept, measure_drift
from holdfast.diagnostics.from_transcripts import Judged, by_group, calibrate_transcripts, judge
from holdfast.diagnostics.growth import fit_growth
from holdfast.diagnostics.splitting import SPLITTINGS, how_to_split
from holdfast.diagnostics.transcripts import Columns, Transcript, read_transcripts
from holdfast.diagnostics.two_stage import Floats, accuracy
from holdfast.judging.extractors import Candidate, find_extractor

if TYPE_CHECKING:
    from holdfast.diagnostics.rl_tasks import RL_TASKS, RlTask, matching, task_of

__all__ = [
    "COLUMN",
    "RL_TASKS",
    "SPLITTINGS",
    "Attempts",
    "Attributed",
    "Calibration",
    "Candidate",
    "Columns",
    "Decomposition",
    "Drifted",
    "Floats",
    "Judged",
    "RlTask",
    "Splitter",
    "Transcript",
    "accuracy",
    "answers_to_see",
    "attribute_transcripts",
    "by_group",
    "calibrate",
    "calibrate_transcripts",
    "decompose",
    "find_extractor",
    "fit_growth",
    "how_to_split",
    "judge",
    "least_kept",
    "lexical_splitter",
    "matching",
    "measure_drift",
    "ratio",
    "read_transcripts",
    "task_of",
    "token_splitter",
]

# RL needs an extra (TRL), which other diagnostics do not have.
__getattr__ = exported_later(__name__, {"rl_tasks": "RL_TASKS RlTask matching task_of"})
