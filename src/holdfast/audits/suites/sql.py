"""Questions to be answered by a SQL query: the same text, the same words, the same meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.audits.suites.rouge import rouge_figures
from holdfast.audits.suites.suite import Questions, Scored, asked_rows, is_missing, prompt_of, question, share
from holdfast.data import Fields, Table, read_table, take_text
from holdfast.records import Completion, Trace

if TYPE_CHECKING:
    from holdfast.audits.suites.sql_meaning import Meaning

PROMPT = (
    "{context}\n\nWrite one SQL query for these tables that answers the question. Give the query only.\n\n{question}"
)


@dataclass(frozen=True)
class SqlSuite(Questions):
    """``schemas`` are the CREATE TABLE statements of every row."""

    schemas: tuple[str, ...] = field(repr=False)

    def score(self, completions: Sequence[Completion]) -> Scored:
        """Exact match and ROUGE-1 of the whole answer; meaning of the query in it."""
        references = [row.turns[-1].visible for row in self.rows]
        exact = [tidy(c.text) == tidy(reference) for c, reference in zip(completions, references, strict=True)]
        meanings = [_meaning(*item) for item in zip(references, completions, self.schemas, strict=True)]
        same, broken = [meaning == "equal" for meaning in meanings], [meaning == "broken" for meaning in meanings]
        missing = sum(map(is_missing, completions))
        figures = (
            share("sql_meaning", same, "more", "queries that return the same", unscored=meanings.count("undecided")),
            share("sql_exact", exact, "more", "answers written the same", unscored=missing),
            *rouge_figures("sql", ("rouge1",), references, completions),
            share("sql_broken", broken, "less", "no query that runs", unscored=missing),
        )
        return Scored(figures, tuple({"meaning": meaning} for meaning in meanings))


def _meaning(reference: str, completion: Completion, schema: str) -> Meaning:
    from holdfast.audits.suites.sql_meaning import find_query, same_meaning  # needs sqlglot, of the extra eval

    query = find_query(completion.text)
    return "broken" if query is None else same_meaning(reference, query, schema)


def tidy(text: str) -> str:
    """The query without extra spaces and a last semicolon, which make no other query."""
    return " ".join(text.split()).rstrip("; ")


def sql_suite(table: Table, limit: int | None) -> SqlSuite:
    """Rows have ``question``, ``context`` (CREATE TABLE ...) and ``answer``; a ``prompt`` of their own replaces ours."""
    source, chosen = asked_rows(table, read_table(table, _row), limit)
    return SqlSuite(
        name="sql",
        source=source,
        rows=tuple(row for row, _ in chosen),
        max_new_tokens=128,
        schemas=tuple(schema for _, schema in chosen),
    )


def _row(fields: Fields) -> tuple[Trace, str]:
    question_text, schema, query = (take_text(fields, name, filled=True) for name in ("question", "context", "answer"))
    return question(prompt_of(fields, PROMPT, context=schema, question=question_text), query), schema
