"""What every suite is: prompts to be answered, and figures made of the answers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from holdfast import stats
from holdfast.data import Fields, Table, table_name, take_text
from holdfast.records import Agreement, Better, Completion, Figure, Outcome, Trace, answer, context

T = TypeVar("T")


@dataclass(frozen=True)
class Scored:
    """What a suite makes of its answers. ``verdicts`` has one entry per answer, in words, by judge.

    ``outcomes``: of every answer, by those judges that tell the three outcomes; None where a judge could not say.
    """

    figures: tuple[Figure, ...]
    verdicts: tuple[dict[str, str], ...]
    agreements: tuple[Agreement, ...] = ()
    outcomes: dict[str, tuple[Outcome | None, ...]] = field(default_factory=dict)


class Suite(Protocol):
    """A set of questions of one kind."""

    @property
    def name(self) -> str:
        """The suite's name in tables and notes."""
        ...

    @property
    def source(self) -> str:
        """Where the questions are from, and how many."""
        ...

    @property
    def rows(self) -> Sequence[Trace]:
        """The questions, each with its reference answer where there is one."""
        ...

    @property
    def max_new_tokens(self) -> int:
        """Enough for any right answer."""
        ...

    def score(self, completions: Sequence[Completion]) -> Scored:
        """One completion per row, in order."""
        ...


@dataclass(frozen=True)
class Questions:
    """The common part of suites: name, source and rows."""

    name: str
    source: str
    rows: tuple[Trace, ...] = field(repr=False)
    max_new_tokens: int


def is_missing(completion: Completion) -> bool:
    """Whether an answer never came, or came empty. It cannot be judged, and counts against the model."""
    return completion.finish_reason == "error" or not completion.text.strip()


def question(request: str, reference: str | None = None) -> Trace:
    """A user turn, and the reference answer if there is one."""
    return Trace((context("user", request), *([] if reference is None else [answer(reference)])))


def prompt_of(fields: Fields, template: str, **parts: str) -> str:
    """The template filled in, unless the row has a ``prompt`` of its own: a tuned model is asked as it was taught."""
    return template.format(**parts) if fields.get("prompt") is None else take_text(fields, "prompt", filled=True)


def share(
    name: str, hits: Iterable[bool], better: Better, meaning: str, *, judge: str = "", unscored: int = 0
) -> Figure:
    """A figure that counts, with its Wilson interval."""
    counted = list(hits)
    return Figure(name, stats.share(counted), better, meaning, judge, unscored, written(counted))


def written(scores: Iterable[float]) -> str:
    """The scores on one line, as a figure keeps them."""
    return " ".join(f"{score:.6g}" for score in scores)


def asked_rows(table: Table, rows: Sequence[T], limit: int | None) -> tuple[str, list[T]]:
    """What a suite says of its source, and the rows of it that are asked."""
    chosen = drawn(rows, limit)
    return f"{table_name(table)}: {len(chosen)} of {len(rows)} rows", chosen


def drawn(rows: Sequence[T], limit: int | None) -> list[T]:
    """``limit`` rows drawn from all over the file, in its order: files are often sorted by kind."""
    if limit is None or limit >= len(rows):
        return list(rows)
    return [rows[index] for index in sorted(random.Random(0).sample(range(len(rows)), limit))]
