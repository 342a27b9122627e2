"""Judges: a request and a response in, a verdict out. Rewards: replies in, numbers out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.config.lazily import exported_later
from holdfast.judging.asked_judge import AskedJudge
from holdfast.judging.code import Returned, check_code, outputs_of
from holdfast.judging.code_stdio import Case, Ran, check_output, run_program
from holdfast.judging.extractors import Extractor, find_extractor, reference_answer
from holdfast.judging.form import Form, asked_forms, form_of, looks_english, misfit
from holdfast.judging.instructions import missing_instruction
from holdfast.judging.judge import Judge, Request, refusals, request_text, tells_outcomes, verdicts
from holdfast.judging.manner import Given, Wanted, given, wanted
from holdfast.judging.opening import Opening, opening
from holdfast.judging.outcome import OUTCOME_FOLDER, OutcomeJudge, features, near_features
from holdfast.judging.parts import (
    CURVES,
    SAME_MODEL,
    Curve,
    FormJudge,
    MeasureJudge,
    OpeningJudge,
    reply_logps,
    words_used,
    yes_over_no,
)
from holdfast.judging.refusal_phrases import RefusalPhrases
from holdfast.judging.registry import JUDGE_TIMEOUT, JUDGES, check_judge, find_judge
from holdfast.judging.rewards import REWARDS, FinalAnswer, Reward, find_reward, score_replies
from holdfast.judging.topic import Overlap, information, nearness, overlap
from holdfast.judging.world import WorldJudge

if TYPE_CHECKING:
    from holdfast.judging.embeddings import (
        SentenceEmbedder,
        package_folder,
        probe_cosines,
        read_embedder,
        sentence_embedder,
    )
    from holdfast.judging.learned_judge import FOLDER, LearnedJudge, pair_features
    from holdfast.judging.learned_reward import LearnedReward, fit_reward
    from holdfast.judging.likelihood import Likelihood, pair_logps

__all__ = [
    "CURVES",
    "FOLDER",
    "JUDGES",
    "JUDGE_TIMEOUT",
    "OUTCOME_FOLDER",
    "REWARDS",
    "SAME_MODEL",
    "AskedJudge",
    "Case",
    "Curve",
    "Extractor",
    "FinalAnswer",
    "Form",
    "FormJudge",
    "Given",
    "Judge",
    "LearnedJudge",
    "LearnedReward",
    "Likelihood",
    "MeasureJudge",
    "Opening",
    "OpeningJudge",
    "OutcomeJudge",
    "Overlap",
    "Ran",
    "RefusalPhrases",
    "Request",
    "Returned",
    "Reward",
    "SentenceEmbedder",
    "Wanted",
    "WorldJudge",
    "asked_forms",
    "check_code",
    "check_judge",
    "check_output",
    "features",
    "find_extractor",
    "find_judge",
    "find_reward",
    "fit_reward",
    "form_of",
    "given",
    "information",
    "looks_english",
    "misfit",
    "missing_instruction",
    "near_features",
    "nearness",
    "opening",
    "outputs_of",
    "overlap",
    "package_folder",
    "pair_features",
    "pair_logps",
    "probe_cosines",
    "read_embedder",
    "reference_answer",
    "refusals",
    "reply_logps",
    "request_text",
    "run_program",
    "score_replies",
    "sentence_embedder",
    "tells_outcomes",
    "verdicts",
    "wanted",
    "words_used",
    "yes_over_no",
]

_LATER = {
    "embeddings": "SentenceEmbedder package_folder probe_cosines read_embedder sentence_embedder",
    "learned_judge": "FOLDER LearnedJudge pair_features",
    "learned_reward": "LearnedReward fit_reward",
    "likelihood": "Likelihood pair_logps",
}

# What loads models: a server in front of other servers has no need of it.
__getattr__ = exported_later(__name__, _LATER)
