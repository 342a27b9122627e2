"""Summaries of dialogues, rows in SAMSum's shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.audits.suites.rouge import rouge_figures
from holdfast.audits.suites.suite import Questions, Scored, asked_rows, prompt_of, question
from holdfast.data import Fields, Table, read_table, take_text
from holdfast.records import Completion, Trace

PROMPT = "Summarize this dialogue in one or two sentences.\n\n{dialogue}"
KINDS = ("rouge1", "rouge2", "rougeL")


@dataclass(frozen=True)
class SummarySuite(Questions):
    """ROUGE-1, 2 and L."""

    def score(self, completions: Sequence[Completion]) -> Scored:
        """Means over the rows."""
        references = [row.turns[-1].visible for row in self.rows]
        return Scored(tuple(rouge_figures("summary", KINDS, references, completions)), ({},) * len(self.rows))


def summary_suite(table: Table, limit: int | None) -> SummarySuite:
    """Rows have ``dialogue`` and ``summary``; a ``prompt`` of their own replaces ours."""
    source, chosen = asked_rows(table, read_table(table, _row), limit)
    return SummarySuite("summaries", source, tuple(chosen), 128)


def _row(fields: Fields) -> Trace:
    dialogue, summary = (take_text(fields, name, filled=True) for name in ("dialogue", "summary"))
    return question(prompt_of(fields, PROMPT, dialogue=dialogue), summary)
