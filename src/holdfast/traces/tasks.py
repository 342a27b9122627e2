"""Tasks with checkable answers, as references: SQL, grade-school mathematics, two-digit arithmetic. Files are named by path."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.config import InputError
from holdfast.config.training import StreamSettings
from holdfast.data import Fields, read_table, take_text
from holdfast.records import Trace, answer, context
from holdfast.training.streams import read_data

Row = tuple[str, str]
"""A request and its right answer."""


@dataclass(frozen=True)
class Task:
    """``name:SOURCE`` stands for rows of this task; ``final`` is the part of an answer that must be right."""

    name: str
    rows: Callable[[str], Iterable[Row]]
    final: Callable[[str], str | None]


def read_references(name: str, *, limit: int | None = None) -> list[Trace]:
    """Rows by name: ``sql:FILE``, ``gsm8k:FILE``, ``arithmetic:SPLIT``, ``world:...``, or any dataset that is read."""
    task, _, source = name.partition(":")
    if task not in TASKS:
        return list(read_data(StreamSettings(data=name, limit=limit)).traces)
    rows = [Trace((context("user", request), answer(text))) for request, text in TASKS[task].rows(source)]
    return rows[:limit]


def _sql(path: str) -> list[Row]:
    def row(fields: Fields) -> Row:
        question, schema, text = (take_text(fields, name) for name in ("question", "context", "answer"))
        return f"{schema}\n\nWrite one SQL query. {question}", text

    return read_table(Path(path), row)


def _gsm8k(path: str) -> list[Row]:
    """GSM8K's rows without the calculator's annotations: a model without one would have to write every number twice."""

    def row(fields: Fields) -> Row:
        return take_text(fields, "question"), re.sub(r"<<[^>]*>>", "", take_text(fields, "answer"))

    return read_table(Path(path), row)


def _arithmetic(split: str) -> Iterator[Row]:
    """Sums and differences of two-digit numbers, each asked once; a fifth of them is the test split."""
    if split not in ("train", "test"):
        raise InputError(f"arithmetic:{split}: expected arithmetic:train or arithmetic:test")
    rng = random.Random("arithmetic")
    sums = [(a, sign, b) for a in range(10, 100) for b in range(10, 100) for sign in "+-"]
    rng.shuffle(sums)
    cut = len(sums) // 5
    for a, sign, b in sums[:cut] if split == "test" else sums[cut:]:
        yield f"What is {a} {sign} {b}?", str(a + b if sign == "+" else a - b)


def _query(text: str) -> str | None:
    """The query, letter for letter, but for spaces and a closing semicolon."""
    return " ".join(text.split()).removesuffix(";").strip() or None


def _last_number(text: str) -> str | None:
    numbers = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
    return numbers[-1].replace(",", "") if numbers else None


TASKS = {
    task.name: task
    for task in (
        Task("sql", _sql, _query),
        Task("gsm8k", _gsm8k, _last_number),
        Task("arithmetic", _arithmetic, _last_number),
    )
}
