"""The user's mistakes: one clear line each, exit code 2, no traceback."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class InputError(Exception):
    """Wrong input. The message names the file, the line and the field, and says what to do."""


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
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""


def nearest_or_all(word: str, known: Iterable[str]) -> str:
    """The same, and where nothing is near ``; known: x, y``."""
    words = list(known)
    return did_you_mean(word, words) or f"; known: {', '.join(words)}"


@contextmanager
def mistakes_end_it() -> Iterator[None]:
    """For what is run by ``python -m``: a mistake is told as the command `holdfast` tells it."""
    try:
        yield
    except InputError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        raise SystemExit(2) from None
