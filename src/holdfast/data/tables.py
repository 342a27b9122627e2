"""Rows of any shape out of a file, each turned into a value; every bad line reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from holdfast.data.fields import BadField, Fields
from holdfast.data.problems import DataError, Problem
from holdfast.data.rows import Row, file_rows, given_rows, memory_rows

T = TypeVar("T")


Table = Path | tuple[Mapping[str, object], ...]
"""A .jsonl, .json, .csv or .parquet file, or rows in memory."""


def as_table(source: str | Path | Iterable[str | Mapping[str, object]]) -> Table:
    """A path, or rows in memory: dicts, or bare texts, which are prompts."""
    if isinstance(source, str | Path):
        return Path(source).expanduser()
    return tuple({"prompt": row} if isinstance(row, str) else row for row in given_rows(source))


def table_name(table: Table) -> str:
    """How messages and results call it."""
    return table.name if isinstance(table, Path) else "memory"


def read_table(table: Table, convert: Callable[[Fields], T]) -> list[T]:
    """``convert`` of every row; it takes fields with ``take_text``.

    Raises ``DataError`` with all problems if there is one, or if there is no row.
    """
    path = table if isinstance(table, Path) else "memory"
    values: list[T] = []
    problems: list[Problem] = []
    for item in file_rows(table) if isinstance(table, Path) else memory_rows(table):
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
