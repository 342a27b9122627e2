"""The user's mistakes: one clear line each, exit code 2, no traceback."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

NEAR = 0.6
"""From this likeness on a known word is offered for an unknown one."""


class InputError(Exception):
    """Wrong input. The message names the file, the line and the field, and says what to do."""


class FieldError(InputError):
    """A setting that cannot be used. ``field`` is its dotted name, such as ``streams.0.data``."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"field '{field}': {message}")
        self.field = field


@contextmanager
def naming_field(field: str) -> Iterator[None]:
    """Turn an ``InputError`` raised inside into a ``FieldError`` of this field."""
    try:
        yield
    except InputError as error:
        raise FieldError(field, str(error)) from None


def need_at_least_one(where: str, **numbers: int | None) -> None:
    """Raise ``InputError`` for a number below 1, as the command line does. None means not given, and passes."""
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise InputError(f"{where}: {name}={number}: expected a whole number from 1 on")


def refuse_unknown(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise ``InputError`` for the first given name that is not known."""
    names = list(known)
    for name in given:
        if name not in names:
            raise InputError(f"{where}: no setting '{name}'{nearest_or_all(name, names)}")


def as_names(given: str | Iterable[str]) -> tuple[str, ...]:
    """The names that a Python caller gave. A single text is one name, not a list of letters."""
    return (given,) if isinstance(given, str) else tuple(given)


class OutOfMemory(InputError):  # noqa: N818  (what it is called everywhere)
    """More memory was asked for than there is. The message says which settings need less."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, of the machine or of a GPU. torch and CUDA say it in several ways, all RuntimeErrors."""
    if isinstance(error, OutOfMemory | MemoryError):
        return True
    words = ("out of memory", "allocate memory", "ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the nearest known word, or nothing."""
    scores = {candidate: _likeness(word, candidate) for candidate in known}
    nearest = max(scores, key=scores.__getitem__, default="")
    return f"; did you mean '{nearest}'?" if scores.get(nearest, 0) >= NEAR else ""


def _likeness(word: str, known: str) -> float:
    """How like a word is to a known one, from 0 to 1.

    A word that is like the first part of a name counts almost as much: adamm is meant to be adamw_torch.
    """
    first = re.split(r"[\W_]", known)[0]
    return max(_ratio(known, word), 0.9 * _ratio(first, word))


def _ratio(known: str, word: str) -> float:
    return difflib.SequenceMatcher(None, known, word).ratio()


def nearest_or_all(word: str, known: Iterable[str]) -> str:
    """As ``did_you_mean``, but ``; known: x, y`` where no known word is near."""
    words = list(known)
    return did_you_mean(word, words) or f"; known: {', '.join(words)}"


@contextmanager
def mistakes_end_it() -> Iterator[None]:
    """For ``python -m``: print an ``InputError`` as the command `holdfast` does, and exit with code 2."""
    try:
        yield
    except InputError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        raise SystemExit(2) from None
