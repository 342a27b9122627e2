"""Judges: a request and a response in, a verdict out."""

from holdfast.judging.judge import Judge, Request
from holdfast.judging.refusal_phrases import RefusalPhrases
from holdfast.judging.world import WorldJudge

__all__ = ["Judge", "RefusalPhrases", "Request", "WorldJudge"]
