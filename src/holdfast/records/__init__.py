"""Frozen values that cross floors. No torch, no files."""

from holdfast.records.audit import Agreement, AuditResult, Bar, Better, Change, Figure
from holdfast.records.matrix import MEASURES, Cell, Measure, Rate
from holdfast.records.results import OUTCOMES, Completion, FinishReason, Outcome, Probabilities, Verdict
from holdfast.records.roles import Role
from holdfast.records.shares import asked_again
from holdfast.records.traces import Segment, Trace, Turn, answer, context, visible_text

__all__ = [
    "MEASURES",
    "OUTCOMES",
    "Agreement",
    "AuditResult",
    "Bar",
    "Better",
    "Cell",
    "Change",
    "Completion",
    "Figure",
    "FinishReason",
    "Measure",
    "Outcome",
    "Probabilities",
    "Rate",
    "Role",
    "Segment",
    "Trace",
    "Turn",
    "Verdict",
    "answer",
    "asked_again",
    "context",
    "visible_text",
]
