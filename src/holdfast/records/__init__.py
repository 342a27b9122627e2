"""Frozen values that cross floors, and the files they are read from. No torch here."""

from holdfast.records.matrix import Cell, Rate
from holdfast.records.problems import DataError, Problem
from holdfast.records.reading import Dataset, fingerprint, read_traces
from holdfast.records.results import Completion, Verdict
from holdfast.records.roles import Role
from holdfast.records.traces import Segment, Trace, Turn, answer, context, visible_text
from holdfast.records.writing import atomic_text, write_traces

__all__ = [
    "Cell",
    "Completion",
    "DataError",
    "Dataset",
    "Problem",
    "Rate",
    "Role",
    "Segment",
    "Trace",
    "Turn",
    "Verdict",
    "answer",
    "atomic_text",
    "context",
    "fingerprint",
    "read_traces",
    "visible_text",
    "write_traces",
]
