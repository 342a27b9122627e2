"""Where candidates come from: OpenAI-compatible servers. Whatever is not a whole, well-formed choice is no candidate."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import httpx

from holdfast.serve.logprobs import Tokens, from_chat, from_completion, mean_logp
from holdfast.serve.protocol import AnswerRequest, sendable
from holdfast.serve.tool_calls import read_tool_calls, spelled

FINISHED = ("stop", "length")
REQUEST_AT_FAULT = (400, 413, 422)  # such as a conversation that is too long for the model
NO_SUCH_PATH = (404, 405, 501)


class BackendError(Exception):
    """No candidates came. The text is for the log and the metrics, not for the client."""


class RequestRefusedError(BackendError):
    """The backend is well, and this request is not for it: no reason to let it rest, or to ask another."""


@dataclass(frozen=True)
class Draw:
    """One candidate."""

    text: str
    finish_reason: str
    mean_logp: float | None = None  # where the backend tells it
    tokens: Tokens | None = None  # where the backend tells them
    tool_calls: tuple[dict[str, Any], ...] = ()

    @property
    def shown(self) -> str:
        """What a judge reads: the text and the tool calls."""
        return spelled(self.text, self.tool_calls)


class Drawn(NamedTuple):
    """Candidates, and the tokens that all of them together cost."""

    draws: list[Draw]
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True)
class Deletion:
    """A streaming backend takes characters back: its model wrote <UNDO>."""

    num_chars: int


@dataclass(frozen=True)
class Ended:
    """The last piece of a stream: the model has finished, or its tokens are used up."""

    finish_reason: str


Piece = str | Deletion | Ended


class Backend(Protocol):
    """A server, or a model in this process, that draws candidates."""

    @property
    def name(self) -> str:
        """The name in logs and metrics."""
        ...

    async def draw(self, request: AnswerRequest, n: int) -> Drawn:
        """At most n candidates, perhaps fewer; BackendError where there are none."""
        ...

    def stream(self, request: AnswerRequest) -> AsyncIterator[Piece]:
        """One candidate piece by piece, for retracting streams."""
        ...

    def spell(self, ids: Sequence[int]) -> str | None:
        """The text of a prompt that was given as tokens; None where the backend alone knows it."""
        ...

    async def close(self) -> None:
        """Close its connections or threads."""
        ...


@dataclass
class HttpBackend:
    """vLLM, llama.cpp, a provider: anything that serves /chat/completions, and perhaps /completions, under ``url``."""

    url: str
    model: str
    client: httpx.AsyncClient
    key: str | None = field(default=None, repr=False)
    logprobs: bool = False  # ask for them: a reward needs them

    @property
    def name(self) -> str:
        """The server's address."""
        return self.url

    async def draw(self, request: AnswerRequest, n: int) -> Drawn:
        """One call for all n; choices that are missing or broken are left out."""
        body, headers = self._body(request, n=n), self._headers()
        try:
            response = await self.client.post(self._address(request), json=body, headers=headers)
            content = response.json() if response.status_code == 200 else None
        except (httpx.HTTPError, ValueError, RecursionError) as error:
            raise BackendError(type(error).__name__) from error
        if content is None:
            raise _refusal(response.status_code, request)
        choices = content.get("choices") if isinstance(content, dict) else None
        read = _read_choice if request.prompt is None else _read_text_choice
        readings = [read(choice, bool(request.tools)) for choice in (choices if isinstance(choices, list) else [])]
        draws = [draw for draw in readings if draw is not None]
        if not draws:
            raise BackendError("no usable choice")
        return Drawn(draws[:n], *_tokens(content.get("usage")))

    async def stream(self, request: AnswerRequest) -> AsyncIterator[Piece]:
        """The deltas' text, and how it ends. A stream that breaks off before [DONE] raises."""
        body = self._body(request, n=1, stream=True)
        try:
            async with self.client.stream(
                "POST", self._address(request), json=body, headers=self._headers()
            ) as response:
                if response.status_code != 200:
                    raise _refusal(response.status_code, request)
                async for data in _events(response):
                    if data == "[DONE]":
                        return
                    for piece in _read_delta(json.loads(data)):
                        yield piece
        except (httpx.HTTPError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise BackendError(type(error).__name__) from error
        raise BackendError("the stream broke off")

    def spell(self, ids: Sequence[int]) -> str | None:
        """Always None: the server's tokenizer is not here."""
        return None

    async def close(self) -> None:
        """Close its connections."""
        await self.client.aclose()

    def _address(self, request: AnswerRequest) -> str:
        return f"{self.url.rstrip('/')}/{'chat/completions' if request.prompt is None else 'completions'}"

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def _body(self, request: AnswerRequest, **more: Any) -> dict[str, Any]:
        body = {"model": self.model, **request.options, **more}
        wants_logps = self.logprobs or request.logprobs is not None
        if request.prompt is not None:
            prompt = request.prompt if isinstance(request.prompt, str) else list(request.prompt)
            logprobs = {"logprobs": request.logprobs or 0} if wants_logps else {}
            return {**body, "prompt": prompt, **logprobs, **({"echo": True} if request.echo else {})}
        logprobs = {"logprobs": True} if wants_logps else {}
        top = {"top_logprobs": request.logprobs} if request.logprobs else {}
        return {**body, "messages": list(request.messages), **request.tools, **logprobs, **top}


def http_backend(url: str, model: str, *, key: str | None, seconds: float, logprobs: bool = False) -> HttpBackend:
    """A backend at an address, with a pool of connections of its own."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
    return HttpBackend(url, model, httpx.AsyncClient(timeout=seconds, limits=limits), key, logprobs)


def _refusal(status: int, request: AnswerRequest) -> BackendError:
    if request.prompt is not None and status in NO_SUCH_PATH:
        return RequestRefusedError("it has no /completions")
    return (RequestRefusedError if status in REQUEST_AT_FAULT else BackendError)(f"HTTP {status}")


async def _events(response: httpx.Response) -> AsyncIterator[str]:
    """What stands behind each ``data:``. Lines end at newlines alone: httpx would also cut at U+2028, inside a text."""
    rest = b""
    async for part in response.aiter_bytes():
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].decode().strip()


def _read_choice(choice: Any, has_tools: bool) -> Draw | None:
    """A choice with text or tool calls and a known end, or nothing. What the backend itself broke off is not whole."""
    if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
        return None
    text, finish = choice["message"].get("content"), str(choice.get("finish_reason"))
    calls = read_tool_calls(choice["message"].get("tool_calls") or [])
    if calls is None or (calls and not has_tools):
        return None
    if calls and text is None:
        text = ""
    if not isinstance(text, str) or finish not in (*FINISHED, *(("tool_calls",) if calls else ())):
        return None
    tokens = from_chat(choice.get("logprobs"))
    return Draw(sendable(text), finish, mean_logp(tokens), tokens, calls)


def _read_text_choice(choice: Any, _has_tools: bool) -> Draw | None:
    """As ``_read_choice``, for /completions."""
    text = choice.get("text") if isinstance(choice, dict) else None
    if not isinstance(text, str) or choice.get("finish_reason") not in FINISHED:
        return None
    tokens = from_completion(choice.get("logprobs"))
    return Draw(sendable(text), choice["finish_reason"], mean_logp(tokens), tokens)


def _tokens(usage: Any) -> tuple[int, int]:
    counts = [usage.get(f"{kind}_tokens") if isinstance(usage, dict) else 0 for kind in ("prompt", "completion")]
    prompt, completion = (count if isinstance(count, int) and count >= 0 else 0 for count in counts)
    return prompt, completion


def _read_delta(content: Any) -> list[Piece]:
    """A piece of text, an end, both or neither (usage, for one, comes without choices)."""
    if not content["choices"]:
        return []
    choice = content["choices"][0]
    text, finish = choice["delta"].get("content"), choice.get("finish_reason")
    if finish not in (None, *FINISHED):
        raise BackendError(f"ended by {finish!r}"[:200])
    return [*([sendable(str(text))] if text else []), *([Ended(finish)] if finish else [])]
