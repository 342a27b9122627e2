"""A conversation whose every span says which role it plays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from holdfast.records.roles import Role

Speaker = Literal["system", "user", "assistant", "tool", "text"]
"""Who writes a turn. ``text`` is a document without turns: it is fed raw, without a chat template."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A span of text with one role. An ``undo`` segment has no text: it retracts the ``error`` segment before it."""

    role: Role
    text: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. Turns that are only context hold a single ``prompt`` segment."""

    speaker: Speaker
    segments: tuple[Segment, ...]

    @property
    def is_target(self) -> bool:
        """Whether any span of this turn is trained."""
        return any(segment.role is not Role.PROMPT for segment in self.segments)

    @property
    def visible(self) -> str:
        """The text left after every undo has been applied: what a reader sees."""
        return visible_text(self.segments)


@dataclass(frozen=True, slots=True)
class Trace:
    """One training or evaluation row: the turns of a conversation, in order."""

    turns: tuple[Turn, ...]

    @property
    def prompt(self) -> tuple[Turn, ...]:
        """The turns before the first trained one."""
        first = next((i for i, turn in enumerate(self.turns) if turn.is_target), len(self.turns))
        return self.turns[:first]


def visible_text(segments: Iterable[Segment]) -> str:
    """Apply the undo segments: each removes the error segment written just before it."""
    kept: list[Segment] = []
    for segment in segments:
        if segment.role is Role.UNDO:
            if kept and kept[-1].role is Role.ERROR:
                kept.pop()
        else:
            kept.append(segment)
    return "".join(segment.text for segment in kept)


def context(speaker: Speaker, text: str) -> Turn:
    """A turn that is read but not trained."""
    return Turn(speaker, (Segment(Role.PROMPT, text),))


def answer(text: str, role: Role = Role.RESPONSE) -> Turn:
    """An assistant turn that is trained."""
    return Turn("assistant", (Segment(role, text),))
