"""Count how a model used ``<UNDO>``: what it wrote, token by token, against the one answer that is right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class UndoUse:
    """Counts over answers; they add up. A token is wrong when it leaves the right answer, or stands behind one that did."""

    answers: int = 0
    right: int = 0  # what is left is the right answer
    answers_with_error: int = 0  # a wrong token was written at any time
    clean_answers_undone: int = 0  # no wrong token was written, yet something was taken back
    errors: int = 0  # departures from the right answer
    errors_undone: int = 0  # of these, taken back
    undos: int = 0
    undone_wrong: int = 0  # wrong tokens taken back
    undone_right: int = 0  # right tokens taken back (those behind an error are wrong)
    undone_nothing: int = 0  # at the start

    def __add__(self, other: UndoUse) -> UndoUse:
        return UndoUse(*(getattr(self, count.name) + getattr(other, count.name) for count in fields(self)))


def undo_use(written: Sequence[int], right: Sequence[int], undo_id: int) -> UndoUse:
    """One answer, without the token that ends the text."""
    stack: list[int] = []
    num_right = 0  # how much of the stack, from its bottom, is the beginning of the right answer
    errors = errors_undone = undos = wrong = undone_right = nothing = 0
    for token in written:
        if token != undo_id:
            if len(stack) == num_right:
                fits = num_right < len(right) and token == right[num_right]
                num_right, errors = num_right + fits, errors + (not fits)
            stack.append(token)
            continue
        undos += 1
        if not stack:
            nothing += 1
        elif len(stack) > num_right:
            wrong += 1
            errors_undone += len(stack) == num_right + 1
            stack.pop()
        else:
            undone_right += 1
            num_right -= 1
            stack.pop()
    return UndoUse(
        answers=1,
        right=stack == list(right),
        answers_with_error=errors > 0,
        clean_answers_undone=errors == 0 and undos > 0,
        errors=errors,
        errors_undone=errors_undone,
        undos=undos,
        undone_wrong=wrong,
        undone_right=undone_right,
        undone_nothing=nothing,
    )


def total(uses: Iterable[UndoUse]) -> UndoUse:
    """The counts of all answers together."""
    return sum(uses, UndoUse())
