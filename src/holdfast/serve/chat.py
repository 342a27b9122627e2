"""/v1/chat/completions: a conversation read, an answer written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.data.fields import shown
from holdfast.records import Turn, context
from holdfast.records.traces import Speaker
from holdfast.serve.answers import Answer, Choice, pieces
from holdfast.serve.logprobs import to_chat
from holdfast.serve.protocol import (
    MAX_TOP,
    UNDERSTOOD,
    AnswerRequest,
    ProtocolError,
    check_text,
    head,
    read_count,
    read_flag,
    read_object,
    read_wish,
    read_wishes,
    says_nothing,
)
from holdfast.serve.settings import ServerSettings
from holdfast.serve.tool_calls import read_tool_calls, spelled

SPEAKERS: dict[str, Speaker] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
TOOLS = ("tools", "tool_choice", "parallel_tool_calls")
FIELDS = (*UNDERSTOOD, *TOOLS, "messages", "max_completion_tokens", "top_logprobs", "holdfast")
MORE = {"assistant": ("tool_calls",), "tool": ("tool_call_id", "name")}


def read_chat(data: bytes, settings: ServerSettings) -> AnswerRequest:
    """The request in a body, checked. Raises ProtocolError 400 for anything that is not understood."""
    body = read_object(data, FIELDS)
    limits = [body[name] for name in ("max_completion_tokens", "max_tokens") if body.get(name) is not None]
    wishes = read_wishes(body, settings, limits[0] if limits else settings.max_tokens)
    num_top = read_count(body, "top_logprobs", 0, (0, MAX_TOP))
    logprobs = num_top if read_flag(body, "logprobs") else None
    if num_top and logprobs is None:
        raise ProtocolError(400, "'top_logprobs' needs 'logprobs': true", "bad_value")
    turns, messages = _read_messages(body.get("messages"))
    request = AnswerRequest(
        turns,
        messages=messages,
        tools=_read_tools(body),
        logprobs=logprobs,
        retracting=read_wish(body, "holdfast", "stream", "retracting"),
        **wishes,
    )
    if request.retracting:
        _check_retracting(request, settings)
    return request


def _check_retracting(request: AnswerRequest, settings: ServerSettings) -> None:
    if not (settings.retracting and request.stream):
        message = "retracting streams are not enabled on this server, or 'stream' is not set"
        raise ProtocolError(400, message, "unsupported")
    wishes = {
        "include_usage": request.include_usage,
        "n": request.num_answers > 1,
        "logprobs": request.logprobs is not None,
        "tools": request.tools,
    }
    for name, value in wishes.items():
        if value:
            raise ProtocolError(400, f"'{name}' is not supported in a retracting stream", "unsupported")


def _read_tools(body: dict[str, Any]) -> dict[str, Any]:
    """What the backend gets of tools; without any tool there is nothing to choose."""
    tools = body.get("tools") or []
    if not isinstance(tools, list) or not all(_is_tool(tool) for tool in tools):
        raise ProtocolError(400, "'tools' must be a list of functions, each with a name", "bad_value")
    choice = body.get("tool_choice")
    if not tools and choice not in (None, "none", "auto"):
        raise ProtocolError(400, "'tool_choice' needs 'tools'", "bad_value")
    return {name: body[name] for name in TOOLS if body.get(name) is not None} if tools else {}


def _is_tool(tool: Any) -> bool:
    function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _read_messages(messages: Any) -> tuple[tuple[Turn, ...], tuple[dict[str, Any], ...]]:
    """What the judge reads, and what the backend gets."""
    if not isinstance(messages, list) or not messages:
        raise ProtocolError(400, "'messages' must be a list of at least one message", "bad_messages")
    read = [_read_message(message, f"messages[{number}]") for number, message in enumerate(messages)]
    if read[-1][0].speaker not in ("user", "tool"):
        raise ProtocolError(400, "the last message must be the user's or a tool's", "bad_messages")
    return tuple(turn for turn, _ in read), tuple(message for _, message in read)


def _read_message(message: Any, where: str) -> tuple[Turn, dict[str, Any]]:
    speaker = SPEAKERS.get(str(message.get("role"))) if isinstance(message, dict) else None
    if speaker is None:
        raise ProtocolError(400, f"{where}: the role must be one of {', '.join(SPEAKERS)}", "bad_messages")
    more = {name: value for name, value in message.items() if name not in ("role", "content")}
    more = {name: value for name, value in more.items() if not says_nothing(value)}
    for name in more:
        if name not in MORE.get(speaker, ()):
            raise ProtocolError(400, f"{where}: '{shown(name)}' is not supported here", "unsupported")
    calls = read_tool_calls(more.get("tool_calls", []))
    if calls is None or not all(isinstance(more.get(name, ""), str) for name in MORE["tool"]):
        raise ProtocolError(400, f"{where}: the tool call is not well-formed", "bad_messages")
    if speaker == "tool" and "tool_call_id" not in more:
        raise ProtocolError(400, f"{where}: a tool's message needs the 'tool_call_id' that it answers", "bad_messages")
    content = message.get("content")
    text = "" if calls and content is None else _text(content, where)
    sent = {"role": speaker, "content": None if calls and content is None else text, **more}
    return context(speaker, spelled(text, calls)), sent


def _text(content: Any, where: str) -> str:
    if isinstance(content, list) and content and all(_is_text(part) for part in content):
        content = "\n".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise ProtocolError(400, f"{where}: the content must be text", "bad_messages")
    check_text(content, where, "bad_messages")
    return content


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def chat_body(request_id: str, model: str, answer: Answer) -> dict[str, Any]:
    """A chat completion; ``holdfast`` is ours, other clients pass over it."""
    choices = [
        {
            "index": index,
            "message": _message(choice),
            "finish_reason": choice.finish_reason,
            "logprobs": None if choice.tokens is None else to_chat(choice.tokens),
            **({"holdfast": choice.verdict} if len(answer.choices) > 1 else {}),
        }
        for index, choice in enumerate(answer.choices)
    ]
    more = {"choices": choices, "usage": answer.usage, "holdfast": answer.verdict}
    return {**head(request_id, "chat.completion", model), **more}


def _message(choice: Choice) -> dict[str, Any]:
    content = choice.text or (None if choice.tool_calls else "")
    message = {"role": "assistant", "content": content, "refusal": None}
    return {**message, "tool_calls": list(choice.tool_calls)} if choice.tool_calls else message


def chat_chunks(request_id: str, model: str, answer: Answer) -> Iterator[dict[str, Any]]:
    """The pieces of a judged answer; with log-probabilities the text is one piece."""
    for index, choice in enumerate(answer.choices):
        role = {"role": "assistant", "content": None if choice.tool_calls and not choice.text else ""}
        yield chat_chunk(request_id, model, role, index=index, holdfast=choice.verdict)
        if choice.tokens is not None:
            yield chat_chunk(request_id, model, {"content": choice.text}, index=index, logprobs=to_chat(choice.tokens))
        else:
            for piece in pieces(choice.text):
                yield chat_chunk(request_id, model, {"content": piece}, index=index)
        for number, call in enumerate(choice.tool_calls):
            yield chat_chunk(request_id, model, {"tool_calls": [{"index": number, **call}]}, index=index)
        yield chat_chunk(request_id, model, {}, choice.finish_reason, index=index)


def chat_chunk(
    request_id: str,
    model: str,
    delta: dict[str, Any],
    finish_reason: str | None = None,
    *,
    index: int = 0,
    logprobs: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """One piece of a stream."""
    choice = {"index": index, "delta": delta, "finish_reason": finish_reason, "logprobs": logprobs}
    return {**head(request_id, "chat.completion.chunk", model), "choices": [choice], **more}
