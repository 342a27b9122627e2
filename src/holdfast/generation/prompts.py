"""What may be asked: one text, the messages of a conversation, or a trace without its answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from holdfast.config import InputError
from holdfast.data import given_rows
from holdfast.records import Trace, Turn, context
from holdfast.records.traces import Speaker

Prompt = Trace | Sequence[Turn] | Sequence[Mapping[str, str]] | str
"""A trace (its answer is not shown to the model), the turns of a conversation, its messages ({"role": ..., "content": ...}), or
the text of one user turn."""
NO_PROMPT = 'a prompt is a text or a list of messages: {"role": "user", "content": "..."}'


def listed_prompts(prompts: str | Iterable[Prompt]) -> list[Prompt]:
    """One text or several prompts, as a list. Raises ``InputError`` for what is no list of prompts."""
    return [prompts] if isinstance(prompts, str) else list(given_rows(prompts, "prompts"))


def turns_of(prompt: Prompt) -> tuple[Turn, ...]:
    """The turns that the model is shown. There is at least one."""
    turns = turns_before(prompt)
    if not turns:
        raise InputError("the prompt is empty: there is no turn before the answer")
    return turns


def turns_before(prompt: Prompt) -> tuple[Turn, ...]:
    """The turns before the answer. A document (a row with ``text``) has none."""
    if isinstance(prompt, str):
        return (context("user", prompt),)
    given: object = prompt  # whatever a caller really put there
    if not isinstance(given, Trace | Sequence):
        raise InputError(NO_PROMPT)
    return prompt.prompt if isinstance(prompt, Trace) else tuple(map(_turn, prompt))


def request_of(turns: Sequence[Turn]) -> str:
    """What was asked last: the text that stands beside the answer."""
    return next((turn.visible for turn in reversed(turns) if turn.speaker in ("user", "text")), turns[-1].visible)


def _turn(message: Turn | Mapping[str, str]) -> Turn:
    if isinstance(message, Turn):
        return message
    role, content = (message.get(key) if isinstance(message, Mapping) else None for key in ("role", "content"))
    if role not in ("system", "user", "assistant") or not isinstance(content, str):
        raise InputError(NO_PROMPT)
    return context(cast(Speaker, role), content)
