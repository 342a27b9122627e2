"""From files, hub datasets and rows in memory to records, and back; the prompts that come with the package. No torch here."""

from holdfast.data.audit_files import read_answer_lines, read_audit, write_audit
from holdfast.data.default_prompts import Kind, default_prompts
from holdfast.data.fields import BadField, Fields, take_text
from holdfast.data.near_twins import content_words, twin_groups, without_twins
from holdfast.data.problems import DataError, Problem
from holdfast.data.prompt_parts import learned_part, package_prompts, validation_part
from holdfast.data.reading import Dataset, read_rows, read_traces, traces_in_memory
from holdfast.data.rows import file_rows, given_rows
from holdfast.data.stored_traces import fingerprint
from holdfast.data.tables import Table, as_table, read_table, table_name, take_request
from holdfast.data.writing import atomic_text, write_between_marks, write_traces

__all__ = [
    "BadField",
    "DataError",
    "Dataset",
    "Fields",
    "Kind",
    "Problem",
    "Table",
    "as_table",
    "atomic_text",
    "content_words",
    "default_prompts",
    "file_rows",
    "fingerprint",
    "given_rows",
    "learned_part",
    "package_prompts",
    "read_answer_lines",
    "read_audit",
    "read_rows",
    "read_table",
    "read_traces",
    "table_name",
    "take_request",
    "take_text",
    "traces_in_memory",
    "twin_groups",
    "validation_part",
    "without_twins",
    "write_audit",
    "write_between_marks",
    "write_traces",
]
