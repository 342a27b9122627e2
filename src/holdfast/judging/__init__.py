"""Judges: a request and a response in, a verdict out."""

from holdfast.judging.asked_judge import AskedJudge
from holdfast.judging.batch import refusals, verdicts
from holdfast.judging.code import check_code
from holdfast.judging.code_stdio import Case, check_output
from holdfast.judging.embeddings import package_folder
from holdfast.judging.form import Form, asked_forms, form_of, misfits
from holdfast.judging.judge import Judge, Request, request_text
from holdfast.judging.learned_judge import FOLDER, LearnedJudge, pair_features
from holdfast.judging.manner import Given, Wanted, given, wanted
from holdfast.judging.opening import Opening, opening
from holdfast.judging.outcome import OUTCOME_FOLDER, OutcomeJudge, features, near_features
from holdfast.judging.parts import (
    CURVES,
    Curve,
    FormJudge,
    MeasureJudge,
    OpeningJudge,
    reply_logps,
    words_used,
    yes_over_no,
)
from holdfast.judging.refusal_phrases import RefusalPhrases
from holdfast.judging.registry import JUDGE_TIMEOUT, JUDGES, find_judge
from holdfast.judging.topic import Overlap, information, nearness, overlap
from holdfast.judging.world import WorldJudge

__all__ = [
    "CURVES",
    "FOLDER",
    "JUDGES",
    "JUDGE_TIMEOUT",
    "OUTCOME_FOLDER",
    "AskedJudge",
    "Case",
    "Curve",
    "Form",
    "FormJudge",
    "Given",
    "Judge",
    "LearnedJudge",
    "MeasureJudge",
    "Opening",
    "OpeningJudge",
    "OutcomeJudge",
    "Overlap",
    "RefusalPhrases",
    "Request",
    "Wanted",
    "WorldJudge",
    "asked_forms",
    "check_code",
    "check_output",
    "features",
    "find_judge",
    "form_of",
    "given",
    "information",
    "misfits",
    "near_features",
    "nearness",
    "opening",
    "overlap",
    "package_folder",
    "pair_features",
    "refusals",
    "reply_logps",
    "request_text",
    "verdicts",
    "wanted",
    "words_used",
    "yes_over_no",
]
