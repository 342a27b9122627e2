"""Frozen values that cross floors. No torch, no files."""

from holdfast.records.audit import Agreement, AuditResult, Bar, Better, Change, Figure
from holdfast.records.matrix import MEASURES, Cell, Measure, Rate
from holdfast.records.results import Completion, FinishReason, Verdict
from holdfast.records.roles import Role
from holdfast.records.shares import asked_again
from holdfast.records.traces import (
    Segment,
    Trace,
    Turn,
    answer,
    chat_arguments,
    chat_messages,
    context,
    setup,
    visible_text,
)

__all__ = [
    "MEASURES",
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
    "Rate",
    "Role",
    "Segment",
    "Trace",
    "Turn",
    "Verdict",
    "answer",
    "asked_again",
    "chat_arguments",
    "chat_messages",
    "context",
    "setup",
    "visible_text",
]
