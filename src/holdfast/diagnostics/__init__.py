"""Why a model does what it does: calibration of decisions, and gradients by role."""

from holdfast.diagnostics.attempts import Attempts, Splitter, lexical_splitter
from holdfast.diagnostics.attributed import Attributed, attribute_transcripts
from holdfast.diagnostics.calibration import Calibration, calibrate
from holdfast.diagnostics.counts import COLUMN, ratio
from holdfast.diagnostics.decomposition import Decomposition, decompose
from holdfast.diagnostics.estimates import OVER_SEEDS, Bootstrap, Estimate, Floats, over_seeds, share
from holdfast.diagnostics.extractors import Candidate, find_extractor
from holdfast.diagnostics.from_transcripts import Judged, by_group, calibrate_transcripts, judge
from holdfast.diagnostics.growth import fit_growth
from holdfast.diagnostics.rl_tasks import RL_TASKS, RlTask, matching, task_of
from holdfast.diagnostics.splitting import SPLITTINGS, how_to_split
from holdfast.diagnostics.transcripts import Columns, Transcript, read_transcripts
from holdfast.diagnostics.two_stage import accuracy

__all__ = [
    "COLUMN",
    "OVER_SEEDS",
    "RL_TASKS",
    "SPLITTINGS",
    "Attempts",
    "Attributed",
    "Bootstrap",
    "Calibration",
    "Candidate",
    "Columns",
    "Decomposition",
    "Estimate",
    "Floats",
    "Judged",
    "RlTask",
    "Splitter",
    "Transcript",
    "accuracy",
    "attribute_transcripts",
    "by_group",
    "calibrate",
    "calibrate_transcripts",
    "decompose",
    "find_extractor",
    "fit_growth",
    "how_to_split",
    "judge",
    "lexical_splitter",
    "matching",
    "over_seeds",
    "ratio",
    "read_transcripts",
    "share",
    "task_of",
]
