"""The HTTP side: routes, limits, errors, what is logged. Every answer comes from Overseer.answer, or is an error."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from holdfast.judging import Judge
from holdfast.serve.access import Access
from holdfast.serve.backends import Backend
from holdfast.serve.balance import Balancer
from holdfast.serve.guarded import GuardedJudge
from holdfast.serve.metrics import Metrics
from holdfast.serve.overseen import Overseer, Reward, no_reward
from holdfast.serve.protocol import ProtocolError, completion_body, new_id, read_request
from holdfast.serve.settings import ServerSettings
from holdfast.serve.streams import WARNING, judged_stream, retracting_stream

log = logging.getLogger("holdfast.serve")
MODEL = "holdfast"
T = TypeVar("T")


def make_app(
    backends: Sequence[Backend],
    judge: Judge,
    settings: ServerSettings,
    *,
    reward: Reward = no_reward,
    model: str = MODEL,
) -> Starlette:
    """The whole server as an ASGI application."""
    metrics = Metrics()
    balancer = Balancer(backends, lambda name, why: _backend_failed(metrics, name, why))
    guarded = GuardedJudge(judge, seconds=settings.judge_seconds, on_fault=lambda why: _judge_failed(metrics, why))
    server = _Server(Overseer(balancer, guarded, reward, settings, metrics), Access(settings), model)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await balancer.close()
        guarded.close()

    return Starlette(
        routes=[
            Route("/v1/chat/completions", server.chat, methods=["POST"]),
            Route("/v1/models", server.models),
            Route("/healthz", server.health),
            Route("/metrics", server.figures),
        ],
        lifespan=lifespan,
    )


class _Server:
    def __init__(self, overseer: Overseer, access: Access, model: str) -> None:
        self._overseer, self._access, self._model = overseer, access, model
        self._settings, self._metrics = overseer.settings, overseer.metrics
        self._num_in_flight = 0

    async def chat(self, request: Request) -> Response:
        """Whatever happens inside, the outside sees a judged answer, a refusal or an error."""
        request_id, begun = new_id(), time.perf_counter()
        outcome = "error"
        self._in_flight(+1)
        try:
            response, outcome = await self._chat(request, request_id)
        except ProtocolError as error:
            outcome = error.code
            response = JSONResponse(error.body(), error.status, {"X-Holdfast-Verdict": "error"})
        except ClientDisconnect:
            outcome = "client gone"
            response = Response(status_code=499)
        except Exception:
            log.exception("%s failed", request_id)
            failure = ProtocolError(500, "internal error", "internal_error", "api_error")
            response = JSONResponse(failure.body(), 500, {"X-Holdfast-Verdict": "error"})
        finally:
            self._in_flight(-1)
            seconds = time.perf_counter() - begun
            self._metrics.requests.labels(outcome).inc()
            self._metrics.seconds.observe(seconds)
            log.info("%s %s in %.3f s", request_id, outcome, seconds)
        return response

    async def _chat(self, request: Request, request_id: str) -> tuple[Response, str]:
        self._access.admit(request)
        if self._num_in_flight > self._settings.max_concurrent:
            raise ProtocolError(503, "too many requests at once; try again later", "overloaded", "api_error")
        asked = read_request(await self._access.body(request), self._settings)
        if self._settings.log_prompts:
            log.info("%s prompt: %s", request_id, asked.messages())
        if asked.retracting:
            pieces = await self._in_time(request, self._overseer.stream(asked))
            stream = self._counted(retracting_stream(request_id, self._model, asked, pieces, self._overseer))
            headers = {"X-Holdfast-Verdict": "unjudged", "X-Holdfast-Warning": WARNING}
            return StreamingResponse(stream, media_type="text/event-stream", headers=headers), "retracting stream"
        answer = await self._in_time(request, self._overseer.answer(asked))
        headers = {
            "X-Holdfast-Verdict": answer.verdict["verdict"],
            "X-Holdfast-Reason": _header(answer.verdict["reason"]),
        }
        outcome = "answered" if answer.returned else "refused"
        if asked.stream:
            stream = judged_stream(request_id, self._model, asked, answer)
            return StreamingResponse(stream, media_type="text/event-stream", headers=headers), outcome
        body = completion_body(request_id, self._model, answer.text, answer.finish_reason, answer.usage, answer.verdict)
        return JSONResponse(body, headers=headers), outcome

    async def _counted(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """A stream that is still being written is in flight."""
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
        """With the deadline for everything, and given up when the client goes."""
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

    async def models(self, request: Request) -> Response:
        """One model: what is behind it is nobody's business."""
        try:
            self._access.admit(request)
        except ProtocolError as error:
            return JSONResponse(error.body(), error.status)
        entry = {"id": self._model, "object": "model", "created": 0, "owned_by": "holdfast"}
        return JSONResponse({"object": "list", "data": [entry]})

    async def health(self, request: Request) -> Response:
        """That the process answers; whether its backends do, the metrics tell."""
        facts: dict[str, Any] = {"status": "ok", "judge": self._overseer.judge.name, "n": self._settings.n}
        return JSONResponse({**facts, "backends": len(self._overseer.backends.backends)})

    async def figures(self, request: Request) -> Response:
        """Prometheus."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _backend_failed(metrics: Metrics, name: str, why: str) -> None:
    metrics.backend_errors.labels(name).inc()
    log.warning("backend %s: %s", name, why)


def _judge_failed(metrics: Metrics, why: str) -> None:
    metrics.judge_faults.inc()
    log.warning("judge: %s", why)


def _header(text: str) -> str:
    """One line of plain characters."""
    return " ".join(text.encode("ascii", "replace").decode().split())[:300]
