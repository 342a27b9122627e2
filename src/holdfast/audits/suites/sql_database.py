"""Small databases on which two queries can be told apart, and a cage to run a stranger's query in."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp

Schema = Mapping[str, Mapping[str, str]]
"""Table -> column -> declared type; names in lower case."""

Value = int | float | str | None
Rows = Mapping[str, Sequence[tuple[Value, ...]]]  # by table
Result = list[tuple[Any, ...]]

MAX_STEPS = 1_000_000  # of sqlite's machine
MAX_ROWS = 10_000
LARGEST = 2**63  # sqlite's integers end before it
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 20_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 500,
}
ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.ILike, exp.In, exp.Between, exp.Is)


def read_schema(create_statements: str) -> Schema:
    """The tables of ``CREATE TABLE`` statements. One that is there twice has the columns of both."""
    schema: dict[str, dict[str, str]] = {}
    for statement in sqlglot.parse(create_statements, read="sqlite"):
        if isinstance(statement, exp.Create) and isinstance(statement.this, exp.Schema):
            table = schema.setdefault(statement.this.this.name.lower(), {})
            for column in statement.this.find_all(exp.ColumnDef):
                table.setdefault(column.name.lower(), column.kind.this.name if column.kind else "")
    return schema


@dataclass(frozen=True)
class Hints:
    """What the queries compare columns with: values near the edges of their conditions, and how large groups must get."""

    values: Mapping[str, tuple[Value, ...]]  # by column, whatever its table
    group_size: int = 1


def hints(queries: Iterable[exp.Expr], schema: Schema) -> Hints:
    """Every literal goes to the columns it stands beside in a comparison."""
    columns = {column for table in schema.values() for column in table}
    literals_of: dict[str, dict[Value, None]] = {}
    group_size = 1
    for query in queries:
        for comparison in query.find_all(*COMPARISONS):
            names = [node.name.lower() for node in comparison.find_all(exp.Column) if node.name.lower() in columns]
            literals = [value for part in comparison.walk() for value in _near(part, columns)]
            for name in names:
                literals_of.setdefault(name, {}).update(dict.fromkeys(literals))
            if comparison.find(exp.Count):
                group_size = max([group_size, *(value for value in literals if isinstance(value, int))])
    return Hints({name: tuple(values) for name, values in literals_of.items()}, min(group_size, 30))


def _near(part: exp.Expr, columns: set[str]) -> list[Value]:
    """The literal itself and its neighbours; of a pattern, what fits it in two ways and what does not."""
    if isinstance(part, exp.Null):
        return [None]
    if isinstance(part, exp.Literal) and not part.is_string:
        try:
            number = float(part.this)
        except ValueError:  # sqlglot takes 1e for a number
            return []
        around = [number - 1, number, number + 1]
        return [int(value) if value.is_integer() and abs(value) < LARGEST else value for value in around]
    text = part.this if isinstance(part, exp.Literal) else None
    if isinstance(part, exp.Column) and part.name.lower() not in columns:
        text = part.name  # sqlite takes a double-quoted word that is no column for a string
    if text is None:
        return []
    bare = text.replace("%", "").replace("_", "b")
    return (
        [bare, text.replace("%", "a").replace("_", "c"), f"{bare}z"]
        if "%" in text or "_" in text
        else [text, f"{text}z"]
    )


def fill(schema: Schema, known: Hints, seed: int) -> Rows:
    """Rows for every table. Columns share the numbers from a first one up, so that joins meet; some have no value twice, so that
    an order is settled; the others have many, so that groups form. A value that a query asks for is there often.
    """
    rng = random.Random(seed)
    num = rng.choice((2, 3, 5, 8, 12)) * (1 + known.group_size // 3)
    first = rng.randint(1, 5)  # or the least of every column would always be 1
    rows: dict[str, list[tuple[Value, ...]]] = {}
    for table, columns in schema.items():
        size = max(1, num + rng.randint(-1, 2))
        filled = [_column(known.values.get(name, ()), range(first, first + size), rng) for name in columns]
        rows[table] = list(zip(*filled, strict=True))
    return rows


def _column(asked_for: Sequence[Value], numbers: range, rng: random.Random) -> list[Value]:
    size = len(numbers)
    if rng.random() < 0.5:
        wanted = rng.sample(asked_for, min(len(asked_for), (size + 1) // 2))
        return rng.sample([*wanted, *numbers][:size], size)
    few = numbers[: rng.randint(2, max(2, size // 3))]
    return [rng.choice(asked_for if asked_for and rng.random() < 0.7 else few) for _ in range(size)]


class Database:
    """A database in memory with these rows. Queries can only read."""

    def __init__(self, schema: Schema, rows: Rows) -> None:
        self.connection = sqlite3.connect(":memory:")
        for table, columns in schema.items():
            declared = ", ".join(f"{_quoted(name)} {kind}" for name, kind in columns.items())
            self.connection.execute(f"CREATE TABLE {_quoted(table)} ({declared})")
            marks = ", ".join("?" * len(columns))
            self.connection.executemany(f"INSERT INTO {_quoted(table)} VALUES ({marks})", rows[table])
        for limit, value in LIMITS.items():
            self.connection.setlimit(limit, value)
        self.connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY
        )
        self.connection.set_progress_handler(lambda: 1, MAX_STEPS)

    def run(self, query: str) -> Result | None:
        """The rows, floats rounded; None if it cannot be run, or not within the limits."""
        try:
            rows = self.connection.execute(query).fetchmany(MAX_ROWS + 1)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError):
            return None
        return None if len(rows) > MAX_ROWS else [tuple(map(_rounded, row)) for row in rows]

    def close(self) -> None:
        """Free the database."""
        self.connection.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _rounded(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value
