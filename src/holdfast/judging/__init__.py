"""Judges: a request and a response in, a verdict out."""

from holdfast.judging.asked_judge import AskedJudge
from holdfast.judging.batch import refusals, verdicts
from holdfast.judging.code import check_code
from holdfast.judging.code_stdio import Case, Ran, check_output, run_program
from holdfast.judging.embeddings import package_folder
from holdfast.judging.form import Form, asked_forms, form_of, misfits
from holdfast.judging.judge import Judge, Request, request_text
from holdfast.judging.learned_judge import FOLDER, LearnedJudge, pair_features
from holdfast.judging.manner import Given, Wanted, given, wanted
from holdfast.judging.opening import Opening, opening
from holdfast.judging.outcome import OUTCOME_FOLDER, OutcomeJudge, features
from holdfast.judging.refusal_phrases import RefusalPhrases
from holdfast.judging.registry import JUDGE_TIMEOUT, JUDGES, find_judge
from holdfast.judging.topic import Overlap, information, nearness, overlap
from holdfast.judging.world import WorldJudge

__all__ = [
    "FOLDER",
    "JUDGES",
    "JUDGE_TIMEOUT",
    "OUTCOME_FOLDER",
    "AskedJudge",
    "Case",
    "Form",
    "Given",
    "Judge",
    "LearnedJudge",
    "Opening",
    "OutcomeJudge",
    "Overlap",
    "Ran",
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
    "nearness",
    "opening",
    "overlap",
    "package_folder",
    "pair_features",
    "refusals",
    "request_text",
    "run_program",
    "verdicts",
    "wanted",
]
