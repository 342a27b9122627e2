"""Do two SQL queries mean the same? Shown by their normal forms, or by what they return on many small databases."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.normalize import normalize
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.simplify import simplify

from holdfast.audits.suites.sql_database import Database, Result, Rows, Schema, fill, hints, read_schema

Meaning = Literal["equal", "different", "broken", "undecided"]
"""``broken``: the query cannot be run. ``undecided``: the reference cannot, or no database told anything."""

MAX_ANSWER, MAX_QUERY = 20_000, 10_000  # characters
NUM_DECIDING, MAX_DATABASES, MIN_DECIDING = 30, 120, 3
FENCE = re.compile(r"```(?:\w+)?\s*\n?(.*?)(?:```|\Z)", re.DOTALL)
BEGINNING = re.compile(r"\b(?:SELECT\b|WITH\s+(?:RECURSIVE\s+)?\w+\s*(?:\([^)]*\)\s*)?AS\s*\()", re.IGNORECASE)
JOIN, CONDITION = (re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for words in ("JOIN", "ON|USING"))
MAX_BARE_JOINS = 10  # each one without a condition doubles sqlglot's time; a model that repeats itself writes dozens
STATEMENT = re.compile(r"(?:[^;'\"]|'[^']*'|\"[^\"]*\"|['\"])*?(?=;|\n\s*\n|\Z)")


def find_query(answer: str) -> str | None:
    """The first query in an answer: in its code fence if there is one, up to a semicolon or a blank line."""
    fence = FENCE.search(answer)
    text = (fence[1] if fence else answer)[:MAX_ANSWER]
    start = BEGINNING.search(text)
    if start is None:
        return None
    statement = STATEMENT.match(text, start.start())
    return statement[0].strip() if statement else None


def same_meaning(reference: str, query: str, create_statements: str) -> Meaning:
    """Compare what both return; as lists where the reference orders its rows, else as multisets.

    A database decides only if the reference returns the same whichever way its rows are stored: ties under an order, and
    columns outside a GROUP BY, are settled by nothing. The reference must also return different things on different
    databases, or agreement with it would be worth nothing. Columns are taken as filled unless a query asks for NULL.
    """
    if len(query) > MAX_QUERY:
        return "broken"
    try:
        schema = read_schema(create_statements)
    except SqlglotError:
        return "undecided"
    reference_tree, tree = _parsed(reference), _parsed(query)
    if tree is not None and reference_tree is not None and _normal(tree, schema) == _normal(reference_tree, schema):
        return "equal"
    ordered = _orders(reference_tree)
    left_to_chance = ordered and not _orders(tree)  # sqlite may order by accident, after grouping for instance
    known = hints([query_tree for query_tree in (reference_tree, tree) if query_tree is not None], schema)
    seen: set[str] = set()
    num_deciding = 0
    for seed in range(MAX_DATABASES):
        rows = fill(schema, known, seed)
        (expected, returned), (expected_again, returned_again) = _both_ways(schema, rows, (reference, query))
        if expected is None or expected_again is None:
            return "undecided"
        if not _same(expected, expected_again, ordered):
            continue
        if returned is None or returned_again is None:
            return "broken"
        if not (_same(expected, returned, ordered) and _same(expected, returned_again, ordered)):
            return "different"
        if left_to_chance and len(set(expected)) > 1:
            return "different"
        seen.add(repr(expected if ordered else sorted(expected, key=repr)))
        num_deciding += 1
        if num_deciding == NUM_DECIDING:
            break
    return "equal" if num_deciding >= MIN_DECIDING and len(seen) > 1 else "undecided"


def _both_ways(schema: Schema, rows: Rows, queries: Sequence[str]) -> Iterator[list[Result | None]]:
    """What the queries return with the rows stored in this order, and in the opposite one; nothing where sqlite takes no such
    tables.
    """
    for step in (1, -1):
        try:
            database = Database(schema, {table: content[::step] for table, content in rows.items()})
        except sqlite3.Error:
            yield [None] * len(queries)
            continue
        yield [database.run(query) for query in queries]
        database.close()


def _same(first: Result, second: Result, ordered: bool) -> bool:
    return first == second if ordered else Counter(first) == Counter(second)


def _orders(tree: exp.Expr | None) -> bool:
    return tree is not None and tree.args.get("order") is not None


def _parsed(query: str) -> exp.Expr | None:
    """None where it cannot be read, or not in reasonable time. What it returns decides then, without the reading."""
    if len(JOIN.findall(query)) - len(CONDITION.findall(query)) > MAX_BARE_JOINS:
        return None
    try:
        return sqlglot.parse_one(query, read="sqlite")
    except (SqlglotError, RecursionError):
        return None


def _normal(tree: exp.Expr, schema: Schema) -> str:
    """Names qualified and in lower case, conditions in normal form; the query as written where that fails."""
    try:
        qualified = qualify(tree.copy(), schema={t: dict(c) for t, c in schema.items()}, dialect="sqlite")
        return str(simplify(normalize(qualified)).sql("sqlite"))
    except (SqlglotError, RecursionError, ValueError, KeyError, TypeError, AttributeError):
        return str(tree.sql("sqlite"))
