"""Plausible wrong spans: a number, an operator, a name or a template's value changed; the words after it as they were."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain

from holdfast.traces.errors import PUNCTUATION, Budget, Error, RightAnswer

NUMBER = re.compile(r"(?<!\d)\d{1,30}(?!\d)")  # what is longer is no number that one mistakes for its neighbour
EXCHANGEABLE = (
    ("+", "-", "*", "/"), ("<", ">", "<=", ">="), ("=", "!="), ("AND", "OR"), ("ASC", "DESC"),
    ("MIN", "MAX", "AVG", "SUM", "COUNT"), ("more", "fewer", "less"), ("before", "after"), ("first", "last"),
)  # fmt: skip
OPERATORS = {word: tuple(other for other in group if other != word) for group in EXCHANGEABLE for word in group}
FUNCTION = re.compile(r"(\w+)(\(.*)", re.DOTALL)
MAX_ALTERNATIVES = 64


class Perturb:
    """Knows what else could stand in a place: from the place itself, the request, and the other answers of the data.

    What ``sayable`` refuses is left out: a word that a model has no tokens for is no error that it could write.
    """

    def __init__(self, references: Sequence[RightAnswer], sayable: Callable[[str], bool] = bool) -> None:
        self._sayable = cache(sayable)
        slots: dict[tuple[str, str], set[str]] = defaultdict(set)
        for reference in references:
            for before, word, after in _neighbours(reference.words):
                slots[before, after].add(word)
        self._slots = {
            neighbours: sorted(words)[:MAX_ALTERNATIVES] for neighbours, words in slots.items() if len(words) > 1
        }

    def places(self, reference: RightAnswer) -> list[int]:
        """Where something plausible but wrong is known."""
        return [at for at in range(len(reference.words)) if any(True for _ in self._others(reference, at))]

    def __call__(self, reference: RightAnswer, budget: Budget, rng: random.Random) -> list[Error]:
        """A wrong word, and perhaps the words that come after the right one."""
        errors = []
        for at in budget.places(self.places(reference), rng):
            followed_by = reference.words[at + 1 : at + budget.num_words(rng)]
            errors.append(Error(at, (rng.choice(self.alternatives(reference, at)), *followed_by)))
        return errors

    def alternatives(self, reference: RightAnswer, at: int) -> list[str]:
        """What could stand here instead of the right word, without repetition."""
        return list(dict.fromkeys(self._others(reference, at)))

    def _others(self, reference: RightAnswer, at: int) -> Iterator[str]:
        """Yield the candidates one by one: ``places`` only needs to know whether there is one."""
        words, word = reference.words, reference.words[at]
        around = (words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else "")
        others = chain(_numbers(word), _operators(word), _names(word, reference), self._slots.get(around, ()))
        return (other for other in others if other != word and self._sayable(other))


def _neighbours(words: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    yield from zip(["", *words[:-1]], words, [*words[1:], ""], strict=True)


def _numbers(word: str) -> Iterator[str]:
    """Each number of the word off by one, off by ten, or with two digits swapped."""
    for match in NUMBER.finditer(word):
        value, digits = int(match[0]), match[0]
        others = {str(value + change) for change in (-10, -1, 1, 10) if value + change >= 0}
        others |= {digits[:-2] + digits[-1] + digits[-2]} if len(digits) > 1 and digits[-2] != "0" else set()
        for other in sorted(others - {digits}):
            yield word[: match.start()] + other + word[match.end() :]


def _operators(word: str) -> Iterator[str]:
    yield from OPERATORS.get(word, ())
    if (called := FUNCTION.fullmatch(word)) is not None:
        for other in OPERATORS.get(called[1], ()):
            yield other + called[2]


def _names(word: str, reference: RightAnswer) -> Iterator[str]:
    """A word taken from the request may be mixed up with another one that the answer takes from it, or a like one."""
    bare = reference.asked
    if word.strip(PUNCTUATION) not in bare:
        return
    shape = _shape(word)
    yield from (other for other in dict.fromkeys(reference.words) if other in bare and _shape(other) == shape)
    if shape != "a":
        yield from (other for other in bare if _shape(other) == shape)


@lru_cache(2**16)
def _shape(word: str) -> str:
    """``Player_ID`` -> ``Aa_A``, ``clips`` -> ``a``."""
    return re.sub(r"(.)\1+", r"\1", re.sub(r"\d", "0", re.sub(r"[^\W\d_A-Z]", "a", re.sub(r"[A-Z]", "A", word))))
