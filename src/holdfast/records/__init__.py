"""Frozen values that cross floors. No torch, no files."""

from holdfast.records.audit import Agreement, AuditResult, Bar, Better, Change, Figure, Group, figure_name, unsafe_means
from holdfast.records.matrix import BESIDE, MEASURES, Cell, Hits, Measure, Outcomes, pooled_cells
from holdfast.records.results import OUTCOMES, Completion, FinishReason, Outcome, Probabilities, Reply, Verdict
from holdfast.records.roles import Role
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
    "BESIDE",
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
    "Group",
    "Hits",
    "Measure",
    "Outcome",
    "Outcomes",
    "Probabilities",
    "Reply",
    "Role",
    "Segment",
    "Trace",
    "Turn",
    "Verdict",
    "answer",
    "chat_arguments",
    "chat_messages",
    "context",
    "figure_name",
    "pooled_cells",
    "setup",
    "unsafe_means",
    "visible_text",
]
