"""Sentences with slots: one object that writes a sentence and recognises it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from holdfast.worlds import vocabulary as words

SLOTS: dict[str, tuple[str, ...]] = {
    "stem": words.STEMS,
    "kind": words.KINDS + words.BANES,
    "stuff": words.STUFFS,
    "tool": words.TOOLS,
    "verb": words.VERBS,
    "finish": words.FINISHES,
    "colour": words.COLOURS,
    "place": words.PLACES,
    "name": words.NAMES,
    "number": words.NUMBERS,
}
"""What may stand in each slot. ``list`` is not here: it takes one word or more, of any sort but punctuation."""

_LIST = r"([^\s,.:;?]+(?: [^\s,.:;?]+)*)"


@dataclass(frozen=True)
class Form:
    """A sentence such as ``it is {colour} .``; every word is separated by one space, punctuation too."""

    template: str

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """The names of the slots, in order."""
        return tuple(re.findall(r"{(\w+)}", self.template))

    @property
    def is_sentence(self) -> bool:
        """Whether it has words of its own, beside its slots."""
        return len(self.slots) < len(self.template.split())

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = []
        for word in self.template.split(" "):
            slot = word[1:-1] if word.startswith("{") else None
            if slot is None:
                parts.append(re.escape(word))
            elif slot == "list":
                parts.append(_LIST)
            else:
                parts.append("(" + "|".join(map(re.escape, SLOTS[slot])) + ")")
        return re.compile(r"(?<!\S)" + " ".join(parts) + r"(?!\S)")

    def fill(self, *values: str) -> str:
        """The sentence with these words in its slots; a last ``list`` slot takes all the values that are left."""
        if self.slots[-1:] == ("list",):
            split = len(self.slots) - 1
            values = (*values[:split], " ".join(values[split:]))
        assert len(values) == len(self.slots), f"{self.template}: {len(values)} values"
        return re.sub(r"{\w+}", "{}", self.template).format(*values)

    def match(self, text: str) -> tuple[str, ...] | None:
        """The words in the slots if the whole text is this sentence, else None."""
        match = self._pattern.fullmatch(text)
        return None if match is None else tuple(" ".join(match.groups()).split())

    def found_in(self, text: str) -> bool:
        """Whether this sentence stands anywhere in the text."""
        return self._pattern.search(text) is not None


def tidy(text: str) -> str:
    """Lower case, one space between words, punctuation apart: the spelling that forms use."""
    return " ".join(re.sub(r"([,.:;?!])", r" \1 ", text.lower()).split())
