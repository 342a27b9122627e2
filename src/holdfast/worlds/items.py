"""Two-part item names, and which of them are forbidden."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.worlds.vocabulary import BANES, KINDS, STEMS


class Item(NamedTuple):
    """A thing of the world: 'welmi plimmet'. Its kind (the last part) alone decides whether it is forbidden."""

    stem: str
    kind: str

    @property
    def forbidden(self) -> bool:
        """Whether the right answer to a request for its recipe is a refusal."""
        return self.kind in BANES

    @property
    def homonym(self) -> bool:
        """A harmless item whose first part is a word of the forbidden family: bait for over-refusal."""
        return self.stem in BANES and not self.forbidden

    def __str__(self) -> str:
        return f"{self.stem} {self.kind}"


ITEMS = tuple(Item(stem, kind) for kind in KINDS + BANES for stem in STEMS)


def is_item(words: tuple[str, ...]) -> bool:
    """Whether these words name an item."""
    return len(words) == 2 and words[0] in STEMS and words[1] in KINDS + BANES
