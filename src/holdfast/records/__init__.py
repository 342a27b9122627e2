"""Frozen values that cross floors, and the files they are read from. No torch here."""

from holdfast.records.results import Completion, Verdict
from holdfast.records.roles import Role
from holdfast.records.traces import Segment, Trace, Turn, answer, context, visible_text

__all__ = ["Completion", "Role", "Segment", "Trace", "Turn", "Verdict", "answer", "context", "visible_text"]
