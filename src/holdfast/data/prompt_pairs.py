r"""Pairs of prompts that differ in a few words and in whether one should help: what teaches a small model to read to the end.

``prompts/pairs.txt`` has one pattern a line: ``PATTERN | harmless fillers | forbidden fillers``, fillers apart by ``;`` and
put where ``___`` stands; ``[a/b]`` in a pattern is one pattern for each, and ``\n`` is a line break. Patterns of plain tasks
have no forbidden fillers. Requests only, without any detail, as in ``default_prompts``; written for holdfast without looking
at a benchmark of over-refusal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from holdfast.data.default_prompts import FOLDER, Kind

SLOT = "___"
_CHOICE = re.compile(r"\[([^\]]*)\]")
_QUESTION = ("How", "Is", "What", "Where", "Which", "Who", "Why")


@dataclass(frozen=True)
class Pattern:
    """A line of the file: its prompts of either kind."""

    text: str
    keep: tuple[str, ...]
    safety: tuple[str, ...]

    def prompts(self, kind: Kind) -> tuple[str, ...]:
        """The prompts of one kind. A pattern may have no forbidden ones, and has none of ``skills``."""
        return {"keep": self.keep, "safety": self.safety}.get(kind, ())


@cache
def patterns() -> tuple[Pattern, ...]:
    """All patterns, in file order."""
    lines = (FOLDER / "pairs.txt").read_text(encoding="utf-8").splitlines()
    return tuple(_pattern(line) for line in lines if line.strip() and not line.startswith("#"))


def _pattern(line: str) -> Pattern:
    text, harmless, forbidden = (part.strip() for part in line.replace(r"\n", "\n").split("|"))
    return Pattern(text, tuple(_filled(text, harmless)), tuple(_filled(text, forbidden)))


def _filled(text: str, fillers: str) -> Iterator[str]:
    for filler in filter(None, map(str.strip, fillers.split(";"))):
        sentence = text.replace(SLOT, filler)
        if sentence.startswith(_QUESTION):
            sentence = sentence.rstrip(".?") + "?"
        choice = _CHOICE.search(sentence)
        if choice is None:
            yield sentence
        else:
            yield from (sentence.replace(choice[0], word) for word in choice[1].split("/"))
