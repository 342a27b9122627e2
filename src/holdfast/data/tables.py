"""Rows of any shape out of a file, each turned into a value; every bad line reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from holdfast.data.fields import BadField, Fields, holds, shown, take_text
from holdfast.data.problems import DataError, Problem
from holdfast.data.rows import Row, file_rows, given_rows, memory_rows

T = TypeVar("T")


Table = Path | tuple[Mapping[str, object], ...]
"""A .jsonl, .json, .csv, .parquet or .txt file, or rows in memory."""


def as_table(source: str | Path | Iterable[str | Mapping[str, object]]) -> Table:
    """A path, or rows in memory: dicts, or bare texts, which are prompts."""
    if isinstance(source, str | Path):
        return Path(source).expanduser()
    return tuple({"prompt": row} if isinstance(row, str) else row for row in given_rows(source))


def table_name(table: Table) -> str:
    """How messages and results call it."""
    return table.name if isinstance(table, Path) else "memory"


REQUEST_COLUMNS = ("prompt", "instruction", "request", "goal", "question", "query", "forbidden_prompt")
"""Where the text of a request stands in the files that people have; the first one found is taken."""


def take_request(fields: Fields) -> str:
    """The request of a row (see REQUEST_COLUMNS); behind an instruction its ``input``, as in training."""
    column = next((name for name in REQUEST_COLUMNS if fields.get(name) is not None), None)
    if column is None:
        given = ", ".join(map(shown, fields)) or "nothing"
        raise BadField("prompt", f"the request here or under {', '.join(REQUEST_COLUMNS[1:])}", given)
    text = take_text(fields, column, filled=True)
    if column == "instruction" and holds(fields.get("input")):
        return f"{text}\n\n{take_text(fields, 'input')}"
    return text


def read_table(table: Table, convert: Callable[[Fields], T]) -> list[T]:
    """``convert`` of every row; it takes fields with ``take_text``. A bare text, or a line of a .txt, is a ``prompt``.

    Raises ``DataError`` with all problems if there is one, or if there is no row.
    """
    path = table if isinstance(table, Path) else "memory"
    values: list[T] = []
    problems: list[Problem] = []
    for item in file_rows(table, texts=True) if isinstance(table, Path) else memory_rows(table):
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
