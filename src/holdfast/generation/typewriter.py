"""Tokens that come and go -> text that grows and shrinks at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

WINDOW = 8  # tokens decoded together: how a token reads can depend on those just before it
HALF_CHARACTER = "�"


class Edit(NamedTuple):
    """Remove so many characters from the end, then write."""

    num_deleted: int
    inserted: str


class Typewriter:
    """The text of a stack of tokens. Characters of which some bytes are still missing are held back."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.ids: list[int] = []
        self.text = ""
        self.shown = ""
        self._undo: list[tuple[str, int]] = []  # per token: the characters it removed, and how many it wrote

    def push(self, token: int) -> Edit:
        """Write one token."""
        before = self._decoded(self.ids[-WINDOW:])
        self.ids.append(token)
        after = self._decoded(self.ids[-WINDOW - 1 :])
        kept = num_common(before, after)
        removed = before[kept:]
        self._undo.append((removed, len(after) - kept))
        self.text = self.text[: len(self.text) - len(removed)] + after[kept:]
        return self._show()

    def pop(self) -> Edit:
        """Take back the last token."""
        self.ids.pop()
        removed, num_written = self._undo.pop()
        self.text = self.text[: len(self.text) - num_written] + removed
        return self._show()

    def finish(self) -> str:
        """The text that was held back; it is shown now, since no token will complete its characters."""
        held_back = self.text[len(self.shown) :]
        self.shown = self.text
        return held_back

    def _show(self) -> Edit:
        wanted = self.text.rstrip(HALF_CHARACTER)
        kept = num_common(self.shown, wanted)
        edit = Edit(len(self.shown) - kept, wanted[kept:])
        self.shown = wanted
        return edit

    def _decoded(self, ids: list[int]) -> str:
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        assert isinstance(text, str)
        return text


def num_common(left: str, right: str) -> int:
    """How many characters two texts share at their beginning."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
