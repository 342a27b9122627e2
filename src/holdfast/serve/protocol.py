"""The OpenAI chat protocol: a request checked, an answer or an error built. Nothing here knows of judges."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.data.fields import shown
from holdfast.records import Turn, context
from holdfast.serve.settings import ServerSettings

SPEAKERS: dict[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
PASSED_ON = ("temperature", "top_p", "stop", "seed", "presence_penalty", "frequency_penalty")
RANGES = {"temperature": (0, 2), "top_p": (0, 1), "presence_penalty": (-2, 2), "frequency_penalty": (-2, 2)}
UNDERSTOOD = (
    *PASSED_ON,
    "messages",
    "model",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
    "holdfast",
)
WITHOUT_EFFECT = ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key")


class ProtocolError(Exception):
    """An error in the protocol's own shape, with its HTTP status."""

    def __init__(self, status: int, message: str, code: str, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status, self.code, self.kind = status, code, kind

    def body(self) -> dict[str, Any]:
        """As OpenAI's clients expect it."""
        return {"error": {"message": str(self), "type": self.kind, "code": self.code, "param": None}}


@dataclass(frozen=True)
class ChatRequest:
    """What is asked, checked."""

    turns: tuple[Turn, ...]
    options: dict[str, Any]  # sampling settings, as the backend gets them
    stream: bool
    retracting: bool
    include_usage: bool
    model: str

    def messages(self) -> list[dict[str, str]]:
        """For the backend."""
        return [{"role": turn.speaker, "content": turn.visible} for turn in self.turns]


def read_request(data: bytes, settings: ServerSettings) -> ChatRequest:
    """Raises ProtocolError 400 for anything that is not understood: nothing is silently dropped that changes the answer."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise ProtocolError(400, "the body is not JSON", "bad_json") from None
    if not isinstance(body, dict):
        raise ProtocolError(400, "the body is not a JSON object", "bad_json")
    for name, value in body.items():
        if value and name not in (*UNDERSTOOD, *WITHOUT_EFFECT):
            raise ProtocolError(400, f"'{shown(name)}' is not supported here", "unsupported")
    if body.get("n") not in (None, 1) or body.get("n") is True:
        raise ProtocolError(400, "'n' is chosen by the server: one answer is returned", "unsupported")
    limits = [body[name] for name in ("max_completion_tokens", "max_tokens") if body.get(name) is not None]
    limit = limits[0] if limits else settings.max_tokens
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ProtocolError(400, "'max_tokens' must be a whole number above 0", "bad_value")
    stream = body.get("stream") or False
    if not isinstance(stream, bool):
        raise ProtocolError(400, "'stream' must be true or false", "bad_value")
    options = {name: body[name] for name in PASSED_ON if body.get(name) is not None}
    _check_sampling(options)
    retracting = _wish(body, "holdfast", "stream", "retracting")
    include_usage = _wish(body, "stream_options", "include_usage", True)
    if retracting and not (settings.retracting and stream):
        raise ProtocolError(
            400, "retracting streams are not enabled on this server, or 'stream' is not set", "unsupported"
        )
    if retracting and include_usage:
        raise ProtocolError(400, "'include_usage' is not supported in a retracting stream", "unsupported")
    return ChatRequest(
        turns=_turns(body.get("messages")),
        options={"temperature": settings.temperature, **options, "max_tokens": min(limit, settings.max_tokens)},
        stream=stream,
        retracting=retracting,
        include_usage=include_usage,
        model=str(body.get("model", "")),
    )


def _wish(body: dict[str, Any], name: str, key: str, value: object) -> bool:
    """Whether the object ``name`` asks for the one thing that is understood in it."""
    wish = body.get(name) or {}
    said = {each: what for each, what in wish.items() if what} if isinstance(wish, dict) else wish
    if said not in ({}, {key: value}):
        raise ProtocolError(400, f"'{name}' can only hold '{key}': {json.dumps(value)}", "unsupported")
    return bool(said)


def _check_sampling(options: dict[str, Any]) -> None:
    """The client's mistake must not look like the backend's."""
    for name, (low, high) in RANGES.items():
        value = options.get(name, high)
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise ProtocolError(400, f"'{name}' must be a number from {low} to {high}", "bad_value")
    seed = options.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**63:
        raise ProtocolError(400, "'seed' must be a whole number of 64 bits", "bad_value")


def _turns(messages: Any) -> tuple[Turn, ...]:
    if not isinstance(messages, list) or not messages:
        raise ProtocolError(400, "'messages' must be a list of at least one message", "bad_messages")
    turns = []
    for place, message in enumerate(messages):
        speaker = SPEAKERS.get(str(message.get("role"))) if isinstance(message, dict) else None
        if speaker is None:
            raise ProtocolError(
                400, f"messages[{place}]: the role must be one of {', '.join(SPEAKERS)}", "bad_messages"
            )
        for name, value in message.items():
            if value and name not in ("role", "content"):
                raise ProtocolError(400, f"messages[{place}]: '{shown(name)}' is not supported here", "unsupported")
        turns.append(context(speaker, _text(message.get("content"), place)))
    if turns[-1].speaker != "user":
        raise ProtocolError(400, "the last message must be the user's", "bad_messages")
    return tuple(turns)


def _text(content: Any, place: int) -> str:
    if isinstance(content, list) and content and all(_is_text(part) for part in content):
        content = "\n".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise ProtocolError(400, f"messages[{place}]: the content must be text", "bad_messages")
    if not content.isascii() and any("\ud800" <= letter <= "\udfff" for letter in content):
        raise ProtocolError(400, f"messages[{place}]: the content holds half a character (a surrogate)", "bad_messages")
    return content


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def completion_body(
    request_id: str, model: str, text: str, finish_reason: str, usage: dict[str, int], verdict: dict[str, Any]
) -> dict[str, Any]:
    """A chat completion with one choice; ``holdfast`` is ours, other clients pass over it."""
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
    return {
        "id": request_id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "usage": usage,
        "holdfast": verdict,
    }


def chunk_body(
    request_id: str, model: str, delta: dict[str, Any], finish_reason: str | None = None, **extra: Any
) -> dict[str, Any]:
    """One piece of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
    body = {"id": request_id, "object": "chat.completion.chunk", "created": int(time.time()), "model": model}
    return {**body, "choices": [choice], **extra}


def event(data: dict[str, Any] | str) -> bytes:
    """As server-sent events write it."""
    return f"data: {data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)}\n\n".encode()


def new_id() -> str:
    """Of one request; it also stands in the log."""
    return f"chatcmpl-{uuid.uuid4().hex}"
