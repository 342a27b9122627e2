"""Requests that are the same but for a few words: public sets copy from each other, and a copy is not held out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Row = TypeVar("Row")

TWIN = 0.6
"""Share of common content words from which two requests count as twins."""
EMPTY_WORDS = frozenset(
    "a an and are as at be by can could do does for from give guide have how i in into is it me my of on or please provide "
    "someone somebody step s tell that the them their they this to what when where which who will with without would write "
    "you your".split()
)


def content_words(text: str) -> frozenset[str]:
    """The words that carry the request, in small letters, endings cut; all words where no other is left."""
    words = re.findall(r"[^\W_]+", text.lower().replace("'", ""))
    return frozenset(map(_stem, (word for word in words if word not in EMPTY_WORDS))) or frozenset(words)


def likeness(a: frozenset[str], b: frozenset[str]) -> float:
    """Common words over all words; 1 for the same set, 0 for nothing in common."""
    return len(a & b) / len(a | b) if a or b else 1.0


def without_twins(rows: Iterable[Row], against: Iterable[str], *, text: Callable[[Row], str]) -> list[Row]:
    """The rows that have no twin in ``against``, nor earlier among themselves. Order is kept."""
    seen = Seen(map(content_words, against))
    kept = []
    for row in rows:
        words = content_words(text(row))
        if seen.nearest(words)[0] < TWIN:
            kept.append(row)
            seen.add(words)
    return kept


class Seen:
    """Sets of words that can be asked for the one most alike."""

    def __init__(self, sets: Iterable[frozenset[str]] = ()) -> None:
        self.sets: list[frozenset[str]] = []
        self._by_word: dict[str, list[int]] = {}
        for words in sets:
            self.add(words)

    def add(self, words: frozenset[str]) -> None:
        """Add a set of words."""
        for word in words:
            self._by_word.setdefault(word, []).append(len(self.sets))
        self.sets.append(words)

    def nearest(self, words: frozenset[str]) -> tuple[float, int]:
        """(likeness, number) of the one most alike; (0, -1) where nothing is shared."""
        candidates = {number for word in words for number in self._by_word.get(word, ())}
        return max(((likeness(words, self.sets[number]), number) for number in sorted(candidates)), default=(0.0, -1))


def twin_groups(texts: Sequence[str]) -> list[int]:
    """A group number for every text; twins, and twins of twins, have the same: what a fair split keeps together."""
    words = list(map(content_words, texts))
    group: list[int] = []
    for number in range(len(texts)):
        alike = [other for other in range(number) if likeness(words[number], words[other]) >= TWIN]
        joined = {group[other] for other in alike}
        mine = min(joined, default=number)
        group = [mine if theirs in joined else theirs for theirs in group]
        group.append(mine)
    return group


def _stem(word: str) -> str:
    """Crude on purpose: it only has to bring 'hacking', 'hacks' and 'hack' together."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            return word[: -len(ending)].removesuffix("e")
    return word.removesuffix("e")
