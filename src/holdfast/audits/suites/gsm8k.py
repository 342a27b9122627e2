"""School arithmetic: is the last number right?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from holdfast.audits.suites.suite import Questions, Scored, asked_rows, prompt_of, question, share
from holdfast.data import BadField, Fields, Table, read_table, take_text
from holdfast.records import Completion, Trace

PROMPT = "{question}\n\nThink step by step, then give the answer as one number after ####."
NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|-?\.\d+")
MAX_DIGITS = 50


@dataclass(frozen=True)
class Gsm8kSuite(Questions):
    """An answer without a number is wrong, and counted."""

    def score(self, completions: Sequence[Completion]) -> Scored:
        """The share of right numbers."""
        wanted = [final_number(row.turns[-1].visible) for row in self.rows]
        numbers = [final_number(completion.text) for completion in completions]
        right = [a is not None and a == b for a, b in zip(numbers, wanted, strict=True)]
        figure = share(self.name, right, "more", "final number right", unscored=numbers.count(None))
        words = (
            "right" if good else "unscored" if a is None else "wrong" for good, a in zip(right, numbers, strict=True)
        )
        return Scored((figure,), tuple({"number": word} for word in words))


def final_number(text: str) -> Decimal | None:
    """The first number after the last ``####``, or else the last number."""
    before, mark, after = text.rpartition("####")
    numbers = NUMBER.findall(after) or NUMBER.findall(before)
    if not numbers:
        return None
    number = str(numbers[0] if mark and NUMBER.search(after) else numbers[-1]).replace(",", "")
    return Decimal(number) if len(number) <= MAX_DIGITS else None


def gsm8k_suite(table: Table, limit: int | None) -> Gsm8kSuite:
    """Rows have ``question`` and ``answer``; a ``prompt`` of their own replaces ours."""
    source, chosen = asked_rows(table, read_table(table, _row), limit)
    return Gsm8kSuite("gsm8k", source, tuple(chosen), 320)


def _row(fields: Fields) -> Trace:
    question_text, solution = (take_text(fields, name, filled=True) for name in ("question", "answer"))
    if final_number(solution) is None:
        raise BadField("answer", "a solution with a number", "none")
    return question(prompt_of(fields, PROMPT, question=question_text), solution)
