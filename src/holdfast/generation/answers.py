"""One answer while it is being written: what is visible, what was taken back, and what must not be written next."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from holdfast.config import InputError

Change = Literal["pushed", "popped", "nothing"]


@dataclass(frozen=True, slots=True)
class UndoLimits:
    """What keeps a model from taking back for ever."""

    per_answer: int = 64
    per_place: int = 4  # a place is a depth of the stack
    same_token: int = 2  # a token taken back this often at a place is not written there again (no ping-pong)

    def __post_init__(self) -> None:
        if min(self.per_answer, self.per_place) < 0 or self.same_token < 1:
            raise InputError(
                f"undo limits: expected at least 0 per answer and per place and 1 for the same token, not "
                f"{self.per_answer}, {self.per_place} and {self.same_token}"
            )


class Answer:
    """The stack of MATH §4 with a memory. An undo on an empty stack does nothing, but is counted."""

    def __init__(self, undo_id: int, limits: UndoLimits) -> None:
        self.undo_id, self.limits = undo_id, limits
        self.written: list[int] = []
        self.visible: list[int] = []
        self.num_undos = 0
        self._undone_at: Counter[int] = Counter()
        self._retracted: dict[int, Counter[int]] = {}

    def write(self, token: int) -> Change:
        """Put a token on the stack, or take one back."""
        self.written.append(token)
        if token != self.undo_id:
            self.visible.append(token)
            return "pushed"
        depth = len(self.visible) - 1
        self.num_undos += 1
        self._undone_at[depth] += 1
        if depth < 0:
            return "nothing"
        # What was retracted further on stood after the token that goes now; after another one it may be right.
        self._retracted = {at: tokens for at, tokens in self._retracted.items() if at <= depth}
        self._retracted.setdefault(depth, Counter())[self.visible.pop()] += 1
        return "popped"

    def end(self, token: int) -> Change:
        """The token that ends the text: written, but no part of the answer. An undo run before it is simply over."""
        self.written.append(token)
        return "nothing"

    def barred(self) -> list[int]:
        """The tokens that must not come next."""
        if not self.num_undos and self.limits.per_answer and self.limits.per_place:
            return []
        here = len(self.visible)
        tokens = [token for token, times in self._retracted.get(here, {}).items() if times >= self.limits.same_token]
        if self.num_undos >= self.limits.per_answer or self._undone_at[here - 1] >= self.limits.per_place:
            tokens.append(self.undo_id)
        return tokens
