"""Frozen values that cross floors, and the files they are read from. No torch here."""

from holdfast.data.fields import BadField, Fields, take_text
from holdfast.data.problems import DataError, Problem
from holdfast.data.reading import Dataset, fingerprint, read_traces
from holdfast.data.tables import read_table
from holdfast.data.writing import atomic_text, write_traces
from holdfast.records.audit import Agreement, AuditResult, Bar, Better, Change, Figure, read_audit, write_audit
from holdfast.records.matrix import MEASURES, Cell, Measure, Outcomes, pooled_cells
from holdfast.records.results import Completion, FinishReason, Verdict
from holdfast.records.roles import Role
from holdfast.records.traces import Segment, Trace, Turn, answer, context, visible_text

__all__ = [
    "MEASURES",
    "Agreement",
    "AuditResult",
    "BadField",
    "Bar",
    "Better",
    "Cell",
    "Change",
    "Completion",
    "DataError",
    "Dataset",
    "Fields",
    "Figure",
    "FinishReason",
    "Measure",
    "Outcomes",
    "Problem",
    "Role",
    "Segment",
    "Trace",
    "Turn",
    "Verdict",
    "answer",
    "atomic_text",
    "context",
    "fingerprint",
    "pooled_cells",
    "read_audit",
    "read_table",
    "read_traces",
    "take_text",
    "visible_text",
    "write_audit",
    "write_traces",
]
