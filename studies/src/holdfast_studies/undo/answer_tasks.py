"""Requests whose answers can be graded and cut into steps: GSM8K by its number, SQL by execution, code by tests.

The rows, prompts and scoring functions are those of the audit's suites.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from holdfast.audits.suites import CodeTask, code_suite, gsm8k_suite, sql_suite, whole_program
from holdfast.config import need_extra
from holdfast.judging import check_code
from holdfast.judging.sandbox import Limits
from holdfast.records import Trace
from holdfast.traces import read_references

Right = Callable[[Trace, str], bool]
"""(a row, an answer given to it) -> is it right?"""
LIMITS = Limits(seconds=3.0)  # of a program
LINES = re.compile(r"[^\n]*(?:\n+|\Z)")
WORDS = re.compile(r"\s*\S+(?:\s+\Z)?")


@dataclass(frozen=True)
class AnswerTask:
    """``steps`` cuts an answer; the pieces joined are the answer again."""

    rows: tuple[Trace, ...]
    right: Right
    steps: Callable[[str], list[str]]

    def grade(self, answers: Sequence[tuple[Trace, str]]) -> list[bool]:
        """Every (row, answer); the same answer to the same row is graded once. Programs run side by side."""
        different = list(dict.fromkeys(answers))
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            grades = dict(zip(different, threads.map(lambda pair: self.right(*pair), different), strict=True))
        return [grades[pair] for pair in answers]


def answer_task(source: str, fallback: Right) -> AnswerTask:
    """``gsm8k:FILE``, ``sql:FILE`` and ``code:FILE``, all rows in a shuffled order that never changes.

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
    """A line, or a sentence of it. A line's end belongs to the step before it, the space between sentences to the next."""
    pieces = [piece for line in LINES.findall(text) for piece in re.split(r"(?<=[.!?])(?= \S)", line)]
    return _joined(pieces)


def lines(text: str) -> list[str]:
    """A line with its end, and the blank lines after it."""
    return _joined(LINES.findall(text))


def words(text: str) -> list[str]:
    """A word with the space in front of it."""
    return WORDS.findall(text)


def _joined(pieces: Sequence[str]) -> list[str]:
    """A piece of nothing but space is part of the step before it."""
    steps: list[str] = []
    for piece in pieces:
        if steps and not piece.strip():
            steps[-1] += piece
        elif piece:
            steps.append(piece)
    return steps


def _gsm8k(path: str) -> AnswerTask:
    from holdfast.audits.suites.gsm8k import final_number

    def right(row: Trace, text: str) -> bool:
        number = final_number(text)
        return number is not None and number == final_number(row.turns[-1].visible)

    return AnswerTask(gsm8k_suite(Path(path), None).rows, right, sentences)


def _sql(path: str) -> AnswerTask:
    need_extra("eval", f"sql:{path}", "sqlglot")
    from holdfast.audits.suites.sql_meaning import find_query, same_meaning

    suite = sql_suite(Path(path), None)
    schemas = dict(zip(suite.rows, suite.schemas, strict=True))

    @cache  # answers that differ in words around the query alone
    def same(row: Trace, query: str) -> bool:
        return same_meaning(row.turns[-1].visible, query, schemas[row]) == "equal"

    def right(row: Trace, text: str) -> bool:
        query = find_query(text)
        return query is not None and same(row, query)

    return AnswerTask(suite.rows, right, words)


def _code(path: str) -> AnswerTask:
    suite = code_suite(Path(path), None)
    tasks: dict[Trace, CodeTask] = dict(zip(suite.rows, suite.tasks, strict=True))

    @cache
    def passes(task: CodeTask, program: str) -> bool:
        return check_code(program, task.test, task.entry_point, trusted=task.begun, limits=LIMITS).score == 1

    def right(row: Trace, text: str) -> bool:
        return passes(tasks[row], whole_program(tasks[row], text))

    return AnswerTask(suite.rows, right, lines)


MAKERS: dict[str, Callable[[str], AnswerTask]] = {"gsm8k": _gsm8k, "sql": _sql, "code": _code}
