"""Requests whose answers can be graded and cut into steps: GSM8K by its number, SQL by execution, code by tests.

The rows, prompts and scoring functions are those of the audit's suites.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from holdfast.audits.suites import code_suite, gsm8k_suite, sql_suite
from holdfast.config import need_extra
from holdfast.judging.sandbox import shared_sandboxes
from holdfast.records import Completion, Trace
from holdfast.traces import read_references

Right = Callable[[Trace, str], bool]
"""(a row, an answer given to it) -> is it right?"""
LINES = re.compile(r"[^\n]*(?:\n+|\Z)")
WORDS = re.compile(r"\s*\S+(?:\s+\Z)?")


@dataclass(frozen=True)
class AnswerTask:
    """Rows, how an answer is graded, and how it is cut into steps. The steps joined are the answer again."""

    rows: tuple[Trace, ...]
    right: Right
    steps: Callable[[str], list[str]]

    def grade(self, answers: Sequence[tuple[Trace, str]]) -> list[bool]:
        """Grade every (row, answer). The same answer to the same row is graded once; programs run side by side."""
        different = list(dict.fromkeys(answers))
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            grades = dict(zip(different, threads.map(lambda pair: self.right(*pair), different), strict=True))
        return [grades[pair] for pair in answers]


def answer_task(source: str, fallback: Right) -> AnswerTask:
    """The task of ``gsm8k:FILE``, ``sql:FILE`` or ``code:FILE``, all rows in a shuffled order that never changes.

    Any other source is read as it is, graded by ``fallback`` and cut into words.
    """
    name, _, path = source.partition(":")
    if name not in MAKERS:
        return AnswerTask(tuple(read_references(source)), fallback, words)
    task = MAKERS[name](path)
    rows = list(task.rows)
    random.Random("answer tasks").shuffle(rows)
    return AnswerTask(tuple(rows), task.right, task.steps)


def sentences(text: str) -> list[str]:
    """Cut into lines, and lines into sentences. A line's end belongs to the step before it, a space to the step after it."""
    pieces = [piece for line in LINES.findall(text) for piece in re.split(r"(?<=[.!?])(?= \S)", line)]
    return _joined(pieces)


def lines(text: str) -> list[str]:
    """Cut into lines, each with its end and the blank lines after it."""
    return _joined(LINES.findall(text))


def words(text: str) -> list[str]:
    """Cut into words, each with the space in front of it."""
    return WORDS.findall(text)


def _joined(pieces: Sequence[str]) -> list[str]:
    """The pieces, where a piece of nothing but space is joined to the one before it."""
    steps: list[str] = []
    for piece in pieces:
        if steps and not piece.strip():
            steps[-1] += piece
        elif piece:
            steps.append(piece)
    return steps


def _of(suite: Any, steps: Callable[[str], list[str]]) -> AnswerTask:
    """The task of a suite: a dataclass whose tuples have an entry per row. An answer is right if its row alone scores 1."""
    numbers = {row: number for number, row in enumerate(suite.rows)}
    by_row = {field.name: values for field in fields(suite) if isinstance(values := getattr(suite, field.name), tuple)}

    def right(row: Trace, text: str) -> bool:
        alone = replace(suite, **{name: (values[numbers[row]],) for name, values in by_row.items()})
        first = alone.score([Completion(row.turns[0].visible, text)]).figures[0]  # the one that grades by result
        return bool(first.estimate.value == 1)

    return AnswerTask(suite.rows, right, steps)


def _sql(path: str) -> AnswerTask:
    need_extra("eval", f"sql:{path}", "sqlglot", "rouge_score")
    return _of(sql_suite(Path(path), None), words)


def _code(path: str) -> AnswerTask:
    shared_sandboxes()  # refuse a machine without a sandbox before anything is drawn
    return _of(code_suite(Path(path), None), lines)


MAKERS: dict[str, Callable[[str], AnswerTask]] = {
    "gsm8k": lambda path: _of(gsm8k_suite(Path(path), None), sentences),
    "sql": _sql,
    "code": _code,
}
