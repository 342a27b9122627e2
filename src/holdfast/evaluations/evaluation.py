"""What every reader gives: for each figure the score of every item, repeats of an item averaged."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from holdfast.config import InputError

Direction = Literal["more", "less"]
"""Which way a figure is better."""


class Trial(NamedTuple):
    """One score as a file has it."""

    item: str
    score: float
    content: str = ""  # a fingerprint of what was asked; empty where the file does not say


class Item(NamedTuple):
    """One item's mean score over ``num`` runs of it."""

    score: float
    num: int = 1
    content: str = ""


@dataclass(frozen=True)
class Scores:
    """The scores of one figure by item."""

    better: Direction
    items: dict[str, Item] = field(repr=False)
    is_part: bool = False  # of one type of request: its items count in another figure too

    @property
    def most_repeats(self) -> int:
        """How often the item with the most runs was run."""
        return max(item.num for item in self.items.values())


@dataclass(frozen=True)
class Evaluation:
    """Figures by name. ``notes`` say what the source holds and was not read.

    ``judged``: the figures by a judge that errs. Their scores are of single replies, which no labels correct.
    """

    source: str
    figures: dict[str, Scores]
    notes: tuple[str, ...] = ()
    judged: frozenset[str] = frozenset()


def scores_of(trials: Iterable[Trial], better: Direction, where: str) -> Scores:
    """Average the repeats of every item. An item whose repeats asked different things is refused."""
    grouped: dict[str, list[Trial]] = {}
    for trial in trials:
        if not math.isfinite(trial.score):
            raise InputError(f"{where}: item '{trial.item}': the score is not a finite number")
        grouped.setdefault(trial.item, []).append(trial)
    items = {}
    for name, repeats in grouped.items():
        if len({repeat.content for repeat in repeats}) > 1:
            raise InputError(f"{where}: item '{name}' stands for different questions")
        mean = math.fsum(repeat.score for repeat in repeats) / len(repeats)
        items[name] = Item(mean, len(repeats), repeats[0].content)
    return Scores(better, items)
