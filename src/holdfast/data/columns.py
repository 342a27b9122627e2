"""Columns that change what a row means, in whatever format: each is honoured, or the row is refused. None is ignored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.data.fields import BadField, Fields, describe, holds, shown, take_text
from holdfast.data.messages import take_json
from holdfast.records.traces import Trace, Turn, answer, context, setup

HONOURED = ("system", "tools", "chat_template_kwargs")
"""Honoured beside every format that has turns."""
REFUSED = ("images", "image", "videos", "video", "audios", "audio", "history")
"""Refused where they hold something and the format does not read them itself."""
OWN_ARGUMENTS = (
    "conversation",
    "messages",
    "tools",
    "documents",
    "chat_template",
    "add_generation_prompt",
    "continue_final_message",
    "tokenize",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "return_dict",
    "return_assistant_tokens_mask",
    "tokenizer_kwargs",
)
"""Arguments of ``apply_chat_template`` that are not the row's to set."""


def with_columns(trace: Trace, fields: Fields, read: Sequence[str]) -> Trace:
    """The trace with its system turn, its tools and its arguments of the chat template; ``read``: the format's columns."""
    for key in REFUSED:
        if key not in read and holds(fields.get(key)):
            expected = (
                "no such column in this format" if key == "history" else "nothing here (only text can be trained)"
            )
            raise BadField(key, expected, describe(fields[key]))
    arguments = {key: value for key, value in (("tools", _tools(fields)), (_KWARGS, _template_kwargs(fields))) if value}
    system = take_text(fields, "system") if holds(fields.get("system")) else ""
    if trace.turns[0].speaker == "text":
        for key in ("system", *arguments):
            if key in arguments or system.strip():
                raise BadField(key, "nothing here beside 'text' (a document has no turns)", describe(fields[key]))
        return trace
    turns = _with_system(trace.turns, system) if system.strip() else trace.turns
    return Trace((setup(arguments), *turns)) if arguments else Trace(turns)


def take_history(fields: Fields) -> tuple[Turn, ...]:
    """LLaMA-Factory's earlier rounds, ``[[request, answer], ...]``; the answers are trained, as they are there."""
    history = take_json(fields, "history")
    if not history:
        return ()
    if not isinstance(history, list):
        raise BadField("history", "a list of pairs of a request and an answer", describe(history))
    turns: list[Turn] = []
    for number, pair in enumerate(history):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            got = f"a list of {len(pair)}" if isinstance(pair, list | tuple) else describe(pair)
            raise BadField(f"history[{number}]", "a pair of a request and an answer", got)
        for index, text in enumerate(pair):
            if not isinstance(text, str) or not text.strip():
                raise BadField(f"history[{number}][{index}]", "a non-empty string", describe(text))
        turns += [context("user", pair[0]), answer(pair[1])]
    return tuple(turns)


def _with_system(turns: tuple[Turn, ...], text: str) -> tuple[Turn, ...]:
    system = next((turn for turn in turns if turn.speaker == "system"), None)
    if system is None:
        return (context("system", text), *turns)
    if system.visible != text:
        raise BadField("system", "nothing here beside a system turn that says something else", "a string")
    return turns


def _tools(fields: Fields) -> list[Any]:
    tools = take_json(fields, "tools")
    if not tools:
        return []
    if not isinstance(tools, list):
        raise BadField("tools", "a list of tools (JSON schemas), or the JSON of one", describe(tools))
    for number, tool in enumerate(tools):
        if not isinstance(tool, dict):
            raise BadField(f"tools[{number}]", "an object: the JSON schema of a tool", describe(tool))
    return tools


def _template_kwargs(fields: Fields) -> dict[str, Any]:
    given = take_json(fields, _KWARGS)
    if not given:
        return {}
    if not isinstance(given, dict):
        raise BadField(_KWARGS, "an object", describe(given))
    for name in given:
        if name in OWN_ARGUMENTS:
            raise BadField(
                f"{_KWARGS}.{shown(name)}", "a variable of the chat template", "one that training sets itself"
            )
    return given


_KWARGS = "chat_template_kwargs"
