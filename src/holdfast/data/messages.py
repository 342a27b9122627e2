"""One message of a conversation, as users write them, to one turn: content, weight, thoughts, tool calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.config import did_you_mean
from holdfast.data.fields import BadField, Fields, describe, shown, take_list, take_text
from holdfast.data.strict_json import NotJSON, StrictDecoder, skip_space
from holdfast.records.traces import Speaker, Turn, answer, context

SPEAKERS: dict[str, Speaker] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
SHAREGPT: dict[str, Speaker] = {
    **SPEAKERS,
    "human": "user",
    "gpt": "assistant",
    "function_call": "assistant",
    "observation": "tool",
}
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""The names under which chat templates look for what an assistant thought before it spoke."""
CALLS = ("tool_calls", "function_call")
READ = ("role", "content", "weight", "tool_call_id", *THOUGHTS, *CALLS)
"""Keys of a message that are read; of a tool's message also ``name``."""


def take_turns(fields: Fields, key: str, *, trained: bool) -> tuple[Turn, ...]:
    """The messages under ``key``. With ``trained``, assistant turns are targets unless their weight is 0."""
    messages = take_list(fields, key, "messages")
    return tuple(_turn(message, f"{key}[{i}]", trained=trained) for i, message in enumerate(messages))


def take_content(fields: Fields, key: str, where: str = "", *, filled: bool = False) -> str:
    """A text, or the text of parts: ``[{"type": "text", "text": ...}]``."""
    parts = fields.get(key)
    if not isinstance(parts, list):
        return take_text(fields, key, where, filled=filled)
    text = "".join(_part(part, f"{where}{key}[{i}]") for i, part in enumerate(parts))
    if filled and not text.strip():
        raise BadField(where + key, "parts with some text in them", describe(text))
    return text


def take_json(fields: Fields, key: str, where: str = "") -> Any:
    """The value under ``key``. A text is read as JSON: tables without nested columns hold it so. Blank is None."""
    value = fields.get(key)
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        parsed = StrictDecoder().parse(value, skip_space(value, 0))
    except NotJSON as error:
        raise BadField(where + key, "JSON", f"a string that is none: {error}") from None
    if parsed.fault is not None or skip_space(value, parsed.end) < len(value):
        reason = parsed.fault.message if parsed.fault else "more text after it"
        raise BadField(where + key, "JSON", f"a string that is none: {reason}")
    return parsed.value


def unread_keys(key: str, items: Iterable[object]) -> list[str]:
    """Keys that hold something and that nobody reads, of the items of a list of messages."""
    unread: dict[str, None] = {}
    for item in items:
        if isinstance(item, dict):
            known = (*READ, *(("name",) if item.get("role") in ("tool", "function") else ()))
            known = (*known, "from", "value") if key == "conversations" else known
            unread.update({name: None for name, value in item.items() if value is not None and name not in known})
    return list(unread)


def unknown(word: str, known: Iterable[str]) -> str:
    """A word that is not among those known, with the nearest of them."""
    return f"'{shown(word)}'" + did_you_mean(word[:60].strip().lower(), known)


def _part(part: object, where: str) -> str:
    if not isinstance(part, dict):
        raise BadField(where, "an object with 'type' and 'text'", describe(part))
    kind = part.get("type")
    if kind != "text":
        got = f"'{shown(kind)}'" if isinstance(kind, str) else describe(kind)
        raise BadField(f"{where}.type", "'text' (only text can be trained)", got)
    return take_text(part, "text", f"{where}.")


def _turn(message: object, where: str, *, trained: bool) -> Turn:
    if not isinstance(message, dict):
        raise BadField(where, "an object with 'role' and 'content'", describe(message))
    is_sharegpt = where.startswith("conversations") and "from" in message
    who, what, speakers = ("from", "value", SHAREGPT) if is_sharegpt else ("role", "content", SPEAKERS)
    role = take_text(message, who, f"{where}.")
    if role not in speakers:
        expected = (
            "system, human, gpt, function_call or observation" if is_sharegpt else "system, user, assistant or tool"
        )
        raise BadField(f"{where}.{who}", expected, unknown(role, speakers))
    speaker = speakers[role]
    calls = _sharegpt_calls(message, where) if role == "function_call" else _calls(message, where)
    if calls and speaker != "assistant":
        raise BadField(f"{where}.{who}", "tool calls in assistant turns only", f"'{role}'")
    weight = _weight(message, speaker, where, trained=trained, calls=bool(calls))
    if calls:
        text = "" if role == "function_call" or message.get(what) is None else take_content(message, what, f"{where}.")
        return context("assistant", text, {**_thoughts(message, where), "tool_calls": calls, **weight})
    if speaker == "assistant":
        fields = {**_thoughts(message, where), **weight}
        if trained and not weight:
            return answer(take_content(message, what, f"{where}.", filled=True), fields=fields)
        return context("assistant", take_content(message, what, f"{where}."), fields)
    more = ("tool_call_id", "name") if speaker == "tool" else ()
    said = {key: take_text(message, key, f"{where}.") for key in more if message.get(key) is not None}
    return context(speaker, take_content(message, what, f"{where}."), said)


def _weight(message: Fields, speaker: Speaker, where: str, *, trained: bool, calls: bool) -> dict[str, Any]:
    """OpenAI's weight of an answer: 1 is trained, as without one, and 0 is context. ``{}`` where nothing changes."""
    weight = message.get("weight")
    if weight is None:
        return {}
    if isinstance(weight, bool) or weight not in (0, 1):
        got = f"{weight:g}" if isinstance(weight, int | float) and not isinstance(weight, bool) else describe(weight)
        raise BadField(f"{where}.weight", "0 (context) or 1 (trained)", got)
    if weight == 1 and (speaker != "assistant" or calls or not trained):
        what = "a turn that calls a tool" if calls else "a turn of the prompt" if speaker == "assistant" else speaker
        raise BadField(f"{where}.weight", "weight 1 on answers only", f"it on {what}, which is context")
    return {"weight": 0} if weight == 0 and speaker == "assistant" and trained and not calls else {}


def _thoughts(message: Fields, where: str) -> dict[str, Any]:
    """What was thought before speaking, under one name; tokens.template finds out which one the model's template reads."""
    given = {name: take_text(message, name, f"{where}.") for name in THOUGHTS if message.get(name) is not None}
    if len(set(given.values())) > 1:
        raise BadField(f"{where}.{list(given)[1]}", "thoughts under one name", " and ".join(given))
    text = next(iter(given.values()), "")
    return {THOUGHTS[0]: text} if text.strip() else {}


def _calls(message: Fields, where: str) -> list[dict[str, Any]]:
    listed = take_json(message, "tool_calls", f"{where}.")
    if listed is not None and not isinstance(listed, list):
        raise BadField(f"{where}.tool_calls", "a list of tool calls", describe(listed))
    calls = [_call(item, f"{where}.tool_calls[{i}]") for i, item in enumerate(listed or [])]
    legacy = take_json(message, "function_call", f"{where}.")
    return [*calls, _call(legacy, f"{where}.function_call")] if legacy else calls


def _sharegpt_calls(message: Fields, where: str) -> list[dict[str, Any]]:
    """LLaMA-Factory's turn ``function_call``: its value is the JSON of one call, or of several."""
    value = take_json(message, "value", f"{where}.")
    calls = value if isinstance(value, list) else [value]
    return [_call(call, f"{where}.value") for call in calls]


def _call(item: object, where: str) -> dict[str, Any]:
    """A call in OpenAI's shape, its arguments an object: the form that most chat templates read."""
    inner = item.get("function", item) if isinstance(item, dict) else item
    if not isinstance(item, dict) or not isinstance(inner, dict):
        raise BadField(where, "an object with 'name' and 'arguments'", describe(item))
    name = take_text(inner, "name", f"{where}.", filled=True)
    arguments = take_json(inner, "arguments", f"{where}.")
    if arguments is not None and not isinstance(arguments, dict):
        raise BadField(f"{where}.arguments", "an object, or the JSON of one", describe(arguments))
    call = {"type": "function", "function": {"name": name, "arguments": arguments or {}}}
    return {"id": item["id"], **call} if isinstance(item.get("id"), str) else call
