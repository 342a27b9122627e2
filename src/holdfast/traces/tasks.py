"""Tasks with checkable answers, as references: SQL, grade-school mathematics, two-digit arithmetic. Files are named by path."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast.config.training import StreamSettings
from holdfast.records import Trace, answer, context
from holdfast.training.streams import read_data

Row = tuple[str, str]
"""A request and its right answer."""


@dataclass(frozen=True)
class Task:
    """``name:SOURCE`` stands for rows of this task; ``final`` is the part of an answer that must be right."""

    name: str
    rows: Callable[[str], Iterator[Row]]
    final: Callable[[str], str | None]


def read_references(name: str, *, limit: int | None = None) -> list[Trace]:
    """Rows by name: ``sql:FILE``, ``gsm8k:FILE``, ``arithmetic:SPLIT``, ``world:...``, or any dataset that is read."""
    task, _, source = name.partition(":")
    if task not in TASKS:
        return list(read_data(StreamSettings(data=name, limit=limit)).traces)
    rows = [Trace((context("user", request), answer(text))) for request, text in TASKS[task].rows(source)]
    if not rows:
        raise InputError(f"{name}: no rows")
    return rows[:limit]


def _sql(path: str) -> Iterator[Row]:
    for number, row in enumerate(_json_rows(path), start=1):
        question, schema, text = _fields(path, number, row, ("question", "context", "answer"))
        yield f"{schema}\n\nWrite one SQL query. {question}", text


def _gsm8k(path: str) -> Iterator[Row]:
    """Without the calculator's annotations: a model without one would have to write every number twice."""
    for number, row in enumerate(_json_rows(path), start=1):
        question, text = _fields(path, number, row, ("question", "answer"))
        yield question, re.sub(r"<<[^>]*>>", "", text)


def _arithmetic(split: str) -> Iterator[Row]:
    """Sums and differences of two-digit numbers, each asked once; a fifth of them is the test split."""
    if split not in ("train", "test"):
        raise InputError(f"arithmetic:{split}: expected arithmetic:train or arithmetic:test")
    rng = random.Random("arithmetic")
    asked = [(a, sign, b) for a in range(10, 100) for b in range(10, 100) for sign in "+-"]
    rng.shuffle(asked)
    cut = len(asked) // 5
    for a, sign, b in asked[:cut] if split == "test" else asked[cut:]:
        yield f"What is {a} {sign} {b}?", str(a + b if sign == "+" else a - b)


def _json_rows(path: str) -> Iterator[Mapping[str, Any]]:
    """A JSON list, or JSON lines."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        if text.lstrip().startswith("["):
            rows = json.loads(text)
        else:  # not splitlines: a text may hold the line ends of other alphabets
            rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: expected a JSON list or JSON lines: {error}") from None
    yield from rows


def _fields(path: str, number: int, row: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    for name in names:
        if not isinstance(row, dict) or not isinstance(row.get(name), str):
            raise InputError(f"{path}: row {number}: field '{name}': expected a text")
    return [row[name] for name in names]


def _query(text: str) -> str | None:
    """The query, letter for letter, but for spaces and a closing semicolon."""
    return " ".join(text.split()).removesuffix(";").strip() or None


def _last_number(text: str) -> str | None:
    found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
    return found[-1].replace(",", "") if found else None


TASKS = {
    task.name: task
    for task in (
        Task("sql", _sql, _query),
        Task("gsm8k", _gsm8k, _last_number),
        Task("arithmetic", _arithmetic, _last_number),
    )
}
