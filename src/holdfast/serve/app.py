"""The HTTP side: routes, limits, errors, what is logged. Every answer comes from Overseer.answer, or is an error."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from holdfast.data.fields import shown
from holdfast.judging import Judge, Reward, find_reward
from holdfast.serve.access import Access
from holdfast.serve.answers import Answer, joined
from holdfast.serve.backends import Backend
from holdfast.serve.balance import Balancer
from holdfast.serve.chat import chat_body, chat_chunks, read_chat
from holdfast.serve.completions import completion_body, completion_chunks, read_completions
from holdfast.serve.guarded import GuardedJudge
from holdfast.serve.metrics import Metrics
from holdfast.serve.overseen import Hint, Overseer, no_hint
from holdfast.serve.protocol import AnswerRequest, ProtocolError, new_id
from holdfast.serve.settings import ServerSettings
from holdfast.serve.streams import WARNING, judged_stream, retracting_stream

log = logging.getLogger("holdfast.serve")
MODEL = "holdfast"
CRASH = ProtocolError(500, "internal error", "internal_error", "api_error")
T = TypeVar("T")


@dataclass(frozen=True)
class Dialect:
    """How one path of the protocol reads and writes. All of them share one pipeline."""

    prefix: str  # of its ids
    read: Callable[[bytes, ServerSettings], list[AnswerRequest]]
    body: Callable[[str, str, Answer], dict[str, Any]]
    chunks: Callable[[str, str, Answer], Iterator[dict[str, Any]]]


CHAT = Dialect("chatcmpl", lambda data, settings: [read_chat(data, settings)], chat_body, chat_chunks)
COMPLETIONS = Dialect("cmpl", read_completions, completion_body, completion_chunks)


def make_app(
    backends: Sequence[Backend],
    judge: Judge,
    settings: ServerSettings,
    *,
    reward: Reward | None = None,
    hint: Hint = no_hint,
    models: Sequence[str] = (MODEL,),
) -> Starlette:
    """The whole server as an ASGI application. ``models``: the names by which clients may call it, the first of them its own."""
    metrics = Metrics()
    balancer = Balancer(backends, lambda name, why: _backend_failed(metrics, name, why), _too_few)
    guarded = GuardedJudge(judge, seconds=settings.judge_seconds, on_fault=lambda why: _judge_failed(metrics, why))
    server = _Server(
        Overseer(balancer, guarded, reward or find_reward("none"), settings, metrics, hint), Access(settings), models
    )

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await balancer.close()
        guarded.close()

    return Starlette(
        routes=[
            Route("/v1/chat/completions", server.chat, methods=["POST"]),
            Route("/v1/completions", server.completions, methods=["POST"]),
            Route("/v1/models", server.list_models),
            Route("/v1/models/{name:path}", server.model),
            Route("/healthz", server.health),
            Route("/metrics", server.figures),
        ],
        exception_handlers={HTTPException: _http_error, ProtocolError: _protocol_error, Exception: _crash},
        lifespan=lifespan,
    )


class _Server:
    def __init__(self, overseer: Overseer, access: Access, models: Sequence[str]) -> None:
        self._overseer, self._access, self._models = overseer, access, models
        self._settings, self._metrics = overseer.settings, overseer.metrics
        self._num_in_flight = 0

    async def chat(self, request: Request) -> Response:
        """Answer /v1/chat/completions."""
        return await self._respond(request, CHAT)

    async def completions(self, request: Request) -> Response:
        """Answer /v1/completions."""
        return await self._respond(request, COMPLETIONS)

    async def _respond(self, request: Request, dialect: Dialect) -> Response:
        """Whatever happens inside, the outside sees a judged answer, a refusal or an error."""
        request_id, begun = new_id(dialect.prefix), time.perf_counter()
        outcome = "error"
        self._in_flight(+1)
        try:
            response, outcome = await self._answer(request, request_id, dialect)
        except ProtocolError as error:
            outcome = error.code
            response = _error_response(error)
        except ClientDisconnect:
            outcome = "client gone"
            response = Response(status_code=499)
        except Exception:
            log.exception("%s failed", request_id)
            response = _error_response(CRASH)
        finally:
            self._in_flight(-1)
            seconds = time.perf_counter() - begun
            self._metrics.requests.labels(outcome).inc()
            self._metrics.seconds.observe(seconds)
            log.info("%s %s in %.3f s", request_id, outcome, seconds)
        return response

    async def _answer(self, request: Request, request_id: str, dialect: Dialect) -> tuple[Response, str]:
        self._access.admit(request)
        if self._num_in_flight > self._settings.max_concurrent:
            raise ProtocolError(503, "too many requests at once; try again later", "overloaded", "api_error")
        requests = dialect.read(await self._access.body(request), self._settings)
        first = requests[0]
        model = self._model(first.model or self._models[0])
        if self._settings.log_prompts:
            log.info("%s prompt: %s", request_id, [one.messages or one.prompt for one in requests])
        headers = self._clamp_headers(request_id, first)
        if first.retracting and self._overseer.hinted(first) is None:
            pieces = await self._in_time(request, self._overseer.stream(first))
            stream = self._counted(retracting_stream(request_id, model, first, pieces, self._overseer))
            headers |= {"X-Holdfast-Verdict": "unjudged", "X-Holdfast-Warning": WARNING}
            return StreamingResponse(stream, media_type="text/event-stream", headers=headers), "retracting stream"
        answer = await self._in_time(request, self._answer_all(requests))
        verdict = answer.verdict
        headers |= {"X-Holdfast-Verdict": verdict["verdict"], "X-Holdfast-Reason": _header(verdict["reason"])}
        if verdict["outcome"] is not None:
            headers["X-Holdfast-Outcome"] = verdict["outcome"]
        outcome = "answered" if answer.returned else "refused"
        if first.stream:
            chunks = dialect.chunks(request_id, model, answer)
            stream = judged_stream(chunks, answer.usage if first.include_usage else None)
            return StreamingResponse(stream, media_type="text/event-stream", headers=headers), outcome
        return JSONResponse(dialect.body(request_id, model, answer), headers=headers), outcome

    async def _answer_all(self, requests: Sequence[AnswerRequest]) -> Answer:
        """Several prompts at once; where one of them fails the others are given up."""
        tasks = [asyncio.create_task(self._overseer.answer(one)) for one in requests]
        try:
            return joined(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    def _clamp_headers(self, request_id: str, request: AnswerRequest) -> dict[str, str]:
        """A header, and a line of the log, where fewer tokens are written than were asked for."""
        if not request.is_clamped:
            return {}
        limit = f"max_tokens {request.wanted_tokens} -> {request.options['max_tokens']}"
        log.info("%s clamped: %s", request_id, limit)
        return {"X-Holdfast-Clamped": limit}

    async def _counted(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Pass a stream on, and count it as in flight while it is being written."""
        self._in_flight(+1)
        try:
            async for piece in stream:
                yield piece
        finally:
            self._in_flight(-1)

    def _in_flight(self, change: int) -> None:
        self._num_in_flight += change
        self._metrics.in_flight.set(self._num_in_flight)

    async def _in_time(self, request: Request, answering: Coroutine[Any, Any, T]) -> T:
        """Await an answer until the deadline; give it up when the client goes."""
        work = asyncio.create_task(answering)
        gone = asyncio.create_task(_disconnected(request))
        try:
            done, _ = await asyncio.wait(
                {work, gone}, timeout=self._settings.request_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if work in done:
                return work.result()
            if gone in done:
                raise ClientDisconnect
            raise ProtocolError(504, "no judged answer in time", "timeout", "api_error")
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    async def list_models(self, request: Request) -> Response:
        """The names that clients may use. The backends behind them are not named."""
        self._access.admit(request)
        return JSONResponse({"object": "list", "data": [_entry(name) for name in self._models]})

    async def model(self, request: Request) -> Response:
        """One of these names."""
        self._access.admit(request)
        return JSONResponse(_entry(self._model(request.path_params["name"])))

    def _model(self, name: str) -> str:
        if name not in self._models:
            known = ", ".join(f"'{known}'" for known in self._models)
            raise ProtocolError(
                404, f"the model '{shown(name)}' does not exist; this server has {known}", "model_not_found"
            )
        return name

    async def health(self, request: Request) -> Response:
        """Show that the process answers. Whether its backends do is in the metrics."""
        facts: dict[str, Any] = {"status": "ok", "judge": self._overseer.judge.name, "n": self._settings.n}
        return JSONResponse({**facts, "backends": len(self._overseer.backends.backends)})

    async def figures(self, request: Request) -> Response:
        """Figures for Prometheus."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _entry(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "holdfast"}


def _error_response(error: ProtocolError, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(error.body(), error.status, {"X-Holdfast-Verdict": "error", **(headers or {})})


async def _protocol_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ProtocolError)
    return _error_response(error)


async def _crash(_request: Request, _error: Exception) -> Response:
    return _error_response(CRASH)


async def _http_error(request: Request, error: Exception) -> Response:
    """Errors of starlette's own, such as a path that does not exist, in the protocol's shape."""
    assert isinstance(error, HTTPException)
    call = f"{request.method} {shown(request.url.path)}"
    known = {404: (f"{call}: no such path", "not_found"), 405: (f"{call}: wrong method", "method_not_allowed")}
    message, code = known.get(error.status_code, (error.detail, "bad_request"))
    return _error_response(ProtocolError(error.status_code, message, code), error.headers)


def _too_few(drawn: int, wanted: int) -> None:
    log.info("%d of %d candidates came: asked again for the others", drawn, wanted)


def _backend_failed(metrics: Metrics, name: str, why: str) -> None:
    metrics.backend_errors.labels(name).inc()
    log.warning("backend %s: %s", name, why)


def _judge_failed(metrics: Metrics, why: str) -> None:
    metrics.judge_faults.inc()
    log.warning("judge: %s", why)


def _header(text: str) -> str:
    """One line of plain characters."""
    return " ".join(text.encode("ascii", "replace").decode().split())[:300]
