"""Rows of any shape out of a file, each turned into a value; every bad line reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.data.fields import BadField, Fields
from holdfast.data.problems import DataError, Problem
from holdfast.data.rows import Row, file_rows

T = TypeVar("T")


def read_table(path: Path, convert: Callable[[Fields], T]) -> list[T]:
    """``convert`` of every row of a .jsonl, .json, .csv or .parquet file; it takes fields with ``take_text``.

    Raises ``DataError`` with all problems if there is one, or if there is no row.
    """
    values: list[T] = []
    problems: list[Problem] = []
    for item in file_rows(path):
        if isinstance(item, Problem):
            problems.append(item)
        elif isinstance(item, Row) and item.fields is not None:
            try:
                values.append(convert(item.fields))
            except BadField as error:
                problems.append(Problem(str(path), item.line, error.field, str(error)))
    if not values and not problems:
        problems.append(Problem(str(path), None, None, "expected at least one row, got none", fatal=True))
    if problems:
        raise DataError(problems)
    return values
