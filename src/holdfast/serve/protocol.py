"""What all paths of the OpenAI protocol share: checking a request, building an error. Nothing here knows of judges."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.data.fields import shown
from holdfast.records import Turn
from holdfast.serve.settings import ServerSettings

PASSED_ON = ("temperature", "top_p", "stop", "seed", "presence_penalty", "frequency_penalty")
RANGES = {"temperature": (0, 2), "top_p": (0, 1), "presence_penalty": (-2, 2), "frequency_penalty": (-2, 2)}
UNDERSTOOD = (*PASSED_ON, "model", "n", "max_tokens", "stream", "stream_options", "logprobs")
WITHOUT_EFFECT = ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key")
NO_OPS: dict[str, tuple[object, ...]] = {
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "function_call": ("none", "auto"),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "top_k": (-1,),
    "skip_special_tokens": (True,),
}
"""Values that ask for what happens anyway. Beside these, values that say nothing are accepted in every field."""
MAX_STOPS = 16
MAX_TOP = 20


class ProtocolError(Exception):
    """An error in the protocol's own shape, with its HTTP status."""

    def __init__(self, status: int, message: str, code: str, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status, self.code, self.kind = status, code, kind

    def body(self) -> dict[str, Any]:
        """As OpenAI's clients expect it."""
        return {"error": {"message": str(self), "type": self.kind, "code": self.code, "param": None}}


@dataclass(frozen=True)
class AnswerRequest:
    """A request, checked: for the answer to a chat, or for the continuation of a text."""

    turns: tuple[Turn, ...]  # what the judge reads
    options: dict[str, Any]  # sampling settings, as the backend gets them
    wanted_tokens: int  # max_tokens before the server's limit
    num_answers: int = 1
    logprobs: int | None = None  # log-probabilities, and of so many alternatives; None: not asked for
    stream: bool = False
    retracting: bool = False
    include_usage: bool = False
    model: str = ""
    messages: tuple[dict[str, Any], ...] = ()  # a chat, as the backend gets it
    tools: dict[str, Any] = field(default_factory=dict)  # tools, tool_choice, ... as the backend gets them
    prompt: str | tuple[int, ...] | None = None  # a text or its tokens; None for a chat
    echo: bool = False  # the prompt is part of what is returned

    @property
    def is_clamped(self) -> bool:
        """Whether fewer tokens are written than were asked for."""
        return self.wanted_tokens > int(self.options["max_tokens"])

    def drawn_again(self, number: int) -> AnswerRequest:
        """The same with another seed: the same seed would draw the same candidate."""
        if "seed" not in self.options:
            return self
        seed = (self.options["seed"] + number + 2**63) % 2**64 - 2**63
        return replace(self, options={**self.options, "seed": seed})


def read_object(data: bytes, understood: Collection[str]) -> dict[str, Any]:
    """The body as a dict. Raises ProtocolError 400 for fields that are not understood and would change the answer."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise ProtocolError(400, "the body is not JSON", "bad_json") from None
    if not isinstance(body, dict):
        raise ProtocolError(400, "the body is not a JSON object", "bad_json")
    for name, value in body.items():
        known = name in (*understood, *WITHOUT_EFFECT) or value in NO_OPS.get(name, ())
        if not known and not says_nothing(value):
            raise ProtocolError(400, f"'{shown(name)}' is not supported here", "unsupported")
    return body


def says_nothing(value: Any) -> bool:
    """Null, false, zero or empty, or an object of nothing else: clients write such for what they do not want."""
    return all(says_nothing(part) for part in value.values()) if isinstance(value, dict) else not value


def read_wishes(body: dict[str, Any], settings: ServerSettings, wanted_tokens: Any, least: int = 1) -> dict[str, Any]:
    """The fields of `AnswerRequest` that every path has."""
    if not isinstance(wanted_tokens, int) or isinstance(wanted_tokens, bool) or wanted_tokens < least:
        raise ProtocolError(400, f"'max_tokens' must be a whole number, at least {least}", "bad_value")
    options = {name: body[name] for name in PASSED_ON if body.get(name) is not None}
    _check_sampling(options)
    if stops := read_stops(options.pop("stop", None)):
        options["stop"] = stops
    model = body.get("model") or ""
    if not isinstance(model, str):
        raise ProtocolError(400, "'model' must be a name", "bad_value")
    limit = min(wanted_tokens, settings.max_tokens)
    return {
        "options": {"temperature": settings.temperature, **options, "max_tokens": limit},
        "wanted_tokens": wanted_tokens,
        "num_answers": read_count(body, "n", 1, (1, settings.max_answers)),
        "stream": read_flag(body, "stream"),
        "include_usage": read_wish(body, "stream_options", "include_usage", True),
        "model": model,
    }


def read_flag(body: dict[str, Any], name: str) -> bool:
    """True or false; nothing else stands for either."""
    value = body.get(name) or False
    if not isinstance(value, bool):
        raise ProtocolError(400, f"'{name}' must be true or false", "bad_value")
    return value


def read_count(body: dict[str, Any], name: str, default: int, between: tuple[int, int]) -> int:
    """A whole number between two limits."""
    value = default if body.get(name) is None else body[name]
    low, high = between
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ProtocolError(400, f"'{name}' must be a whole number from {low} to {high}", "bad_value")
    return value


def read_wish(body: dict[str, Any], name: str, key: str, value: object) -> bool:
    """Whether the object ``name`` asks for the one thing that is understood in it."""
    wish = body.get(name) or {}
    wishes = {field: wanted for field, wanted in wish.items() if wanted} if isinstance(wish, dict) else wish
    if wishes not in ({}, {key: value}):
        raise ProtocolError(400, f"'{name}' can only hold '{key}': {json.dumps(value)}", "unsupported")
    return bool(wishes)


def read_stops(stop: Any) -> list[str]:
    """One text or several, at which an answer ends."""
    stops = [stop] if isinstance(stop, str) and stop else (stop or [])
    if (
        not isinstance(stops, list)
        or len(stops) > MAX_STOPS
        or not all(isinstance(text, str) and text for text in stops)
    ):
        raise ProtocolError(400, f"'stop' must be a text or at most {MAX_STOPS} texts, none of them empty", "bad_value")
    for text in stops:
        check_text(text, "'stop'")
    return stops


def check_text(text: str, where: str, code: str = "bad_value") -> None:
    """JSON can carry half a character, which nothing can be sent with."""
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ProtocolError(400, f"{where}: the text holds half a character (a surrogate)", code)


def sendable(text: str) -> str:
    """The text of a backend, with a question mark for half a character."""
    return text.encode(errors="replace").decode()


def _check_sampling(options: dict[str, Any]) -> None:
    """Refuse sampling settings that a backend would refuse: the client's mistake must not look like the backend's."""
    for name, (low, high) in RANGES.items():
        value = options.get(name, high)
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise ProtocolError(400, f"'{name}' must be a number from {low} to {high}", "bad_value")
    seed = options.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**63:
        raise ProtocolError(400, "'seed' must be a whole number of 64 bits", "bad_value")


def head(request_id: str, kind: str, model: str) -> dict[str, Any]:
    """What every body and every piece of a stream begins with."""
    return {"id": request_id, "object": kind, "created": int(time.time()), "model": model}


def event(data: dict[str, Any] | str) -> bytes:
    """One server-sent event."""
    return f"data: {data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)}\n\n".encode()


def new_id(prefix: str) -> str:
    """A new id for a request; it also stands in the log."""
    return f"{prefix}-{uuid.uuid4().hex}"
