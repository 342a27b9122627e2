"""Judges: a request and a response in, a verdict out."""

from holdfast.judging.batch import refusals, verdicts
from holdfast.judging.code import check_code
from holdfast.judging.code_stdio import Case, check_output
from holdfast.judging.embeddings import package_folder
from holdfast.judging.judge import Judge, Request, request_text
from holdfast.judging.learned_judge import FOLDER, LearnedJudge, pair_features
from holdfast.judging.refusal_phrases import RefusalPhrases
from holdfast.judging.registry import JUDGE_TIMEOUT, JUDGES, find_judge
from holdfast.judging.world import WorldJudge

__all__ = [
    "FOLDER",
    "JUDGES",
    "JUDGE_TIMEOUT",
    "Case",
    "Judge",
    "LearnedJudge",
    "RefusalPhrases",
    "Request",
    "WorldJudge",
    "check_code",
    "check_output",
    "find_judge",
    "package_folder",
    "pair_features",
    "refusals",
    "request_text",
    "verdicts",
]
