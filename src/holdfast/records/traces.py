"""A conversation whose every span says which role it plays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from holdfast.records.roles import Role

Speaker = Literal["system", "user", "assistant", "tool", "text", "setup"]
"""Who writes a turn. ``text`` is a document without turns: it is fed raw, without a chat template. ``setup`` is no message:
it holds what the chat template is given beside the messages (``tools``, ``chat_template_kwargs``), as JSON."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A span of text with one role. An ``undo`` segment has no text: it retracts the ``error`` segment before it."""

    role: Role
    text: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. Turns that are only context hold a single ``prompt`` segment.

    ``fields`` is a JSON object, or empty: what the message says beside role and content (``reasoning_content``,
    ``tool_calls``, ...). The chat template is given it. It is text, so that turns can be compared and hashed.
    """

    speaker: Speaker
    segments: tuple[Segment, ...]
    fields: str = ""

    @property
    def is_target(self) -> bool:
        """Whether any span of this turn is trained."""
        return any(segment.role is not Role.PROMPT for segment in self.segments)

    @property
    def visible(self) -> str:
        """The text left after every undo has been applied: what a reader sees."""
        return visible_text(self.segments)

    @property
    def other_fields(self) -> dict[str, Any]:
        """``fields`` as a dictionary."""
        return dict(json.loads(self.fields)) if self.fields else {}

    def as_context(self) -> Turn:
        """The same turn, read but not trained. A ``weight`` says whether to train it, so it goes."""
        fields = {name: value for name, value in self.other_fields.items() if name != "weight"}
        return replace(self, segments=(Segment(Role.PROMPT, self.visible),), fields=_json(fields))


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


def context(speaker: Speaker, text: str, fields: Mapping[str, Any] | None = None) -> Turn:
    """A turn that is read but not trained."""
    return Turn(speaker, (Segment(Role.PROMPT, text),), _json(fields))


def answer(text: str, role: Role = Role.RESPONSE, fields: Mapping[str, Any] | None = None) -> Turn:
    """An assistant turn that is trained."""
    return Turn("assistant", (Segment(role, text),), _json(fields))


def setup(arguments: Mapping[str, Any]) -> Turn:
    """A turn for the front of a conversation: its ``tools`` and ``chat_template_kwargs``."""
    return context("setup", _json(arguments))


def chat_messages(turns: Iterable[Turn]) -> list[dict[str, Any]]:
    """The messages of a conversation, as chat templates and OpenAI's protocol take them."""
    said = [turn for turn in turns if turn.speaker != "setup"]
    messages = [{"role": turn.speaker, "content": turn.visible, **turn.other_fields} for turn in said]
    for message in messages:
        message.pop("weight", None)  # that one is for training
    return messages


def chat_arguments(turns: Iterable[Turn]) -> dict[str, Any]:
    """What goes with the messages: ``tools`` and ``chat_template_kwargs``, each only if the conversation has it."""
    given: dict[str, Any] = {}
    for turn in turns:
        if turn.speaker == "setup":
            given |= json.loads(turn.visible)
    return given


def _json(value: Mapping[str, Any] | None) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if value else ""
