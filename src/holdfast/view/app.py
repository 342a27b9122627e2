"""The server behind the page: what may be asked, and what comes back. Nothing here writes to a file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from holdfast.config import InputError
from holdfast.reports.page import asset, embedded_json, environment, page_policy, render
from holdfast.reports.reading import read_run
from holdfast.view.access import Gate
from holdfast.view.cells import cell_values, matrix_values, read_matrix
from holdfast.view.charts import NUM_OPEN, run_charts
from holdfast.view.chat import JUDGES, REWARDS, Ask, answer_events, read_json
from holdfast.view.models import Models
from holdfast.view.watch import Watch, event

MAX_BODY = 1 << 20
MAX_LAID_OVER = 8
KEEP_ALIVE = 10.0  # seconds
SCRIPTS = ("view.js", "runs.js", "matrix.js", "tokens.js", "try.js")
TYPES = {".js": "text/javascript", ".css": "text/css"}


def make_view(
    root: Path, token: str, models: Sequence[str] = (), *, has_ended: Callable[[], bool] = lambda: False
) -> ASGIApp:
    """The whole server as an ASGI application.

    ``models``: names beside the embedded models and those of the runs. ``has_ended`` tells that the server is to stop: pages
    listen for ever otherwise.
    """
    server = _Server(Watch(root.resolve(), has_ended), models)
    app = Starlette(
        routes=[
            Route("/", server.page),
            Route("/assets/{name}", server.asset),
            Route("/events", server.events),
            Route("/charts", server.charts),
            Route("/runs/{run}/report", server.report),
            Route("/matrix/{run}", server.matrix),
            Route("/matrix/{run}/cell", server.cell),
            Route("/models", server.models),
            Route("/tokens", server.tokens, methods=["POST"]),
            Route("/chat", server.chat, methods=["POST"]),
        ],
        exception_handlers={InputError: _input_error, HTTPException: _http_error, ClientDisconnect: _client_gone},
    )
    return Gate(app, token)


class _Server:
    def __init__(self, watch: Watch, models: Sequence[str]) -> None:
        self.watch = watch
        self._models = Models(watch, models)

    async def page(self, _request: Request) -> Response:
        """The page itself: empty panels that its scripts fill."""
        return _html("view.html.j2", judges=JUDGES, rewards=REWARDS, most=MAX_LAID_OVER)

    async def asset(self, request: Request) -> Response:
        """Scripts and styles of the package, by name."""
        text = _assets().get(request.path_params["name"])
        if text is None:
            raise HTTPException(404)
        return Response(text, media_type=TYPES[Path(request.path_params["name"]).suffix])

    async def events(self, _request: Request) -> Response:
        """Every run, then every change, as server-sent events."""
        return StreamingResponse(self._changes(), media_type="text/event-stream")

    async def _changes(self) -> AsyncIterator[bytes]:
        last = time.monotonic()
        async for change in self.watch.changes():
            if change:
                yield event(change)
                last = time.monotonic()
            elif time.monotonic() - last > KEEP_ALIVE:  # a page that has gone is noticed when something is sent
                yield b": \n\n"
                last = time.monotonic()

    async def charts(self, request: Request) -> Response:
        """The figures of the runs chosen, laid over each other."""
        keys = request.query_params.getlist("run")[:MAX_LAID_OVER]
        logs = [log for key in keys if (log := await self.watch.logs(key)) is not None]
        charts = await asyncio.to_thread(run_charts, [log for log in logs if log.steps.steps])
        figures = embedded_json({chart.key: chart.figures for _, chart in charts})
        return _html("charts.html.j2", charts=charts, figures=figures, num_open=NUM_OPEN)

    async def report(self, request: Request) -> Response:
        """What `holdfast report` would write of this run."""
        folder = (await self._run(request)).folder
        text = await asyncio.to_thread(lambda: render(read_run(folder.path)))
        return HTMLResponse(text, headers={"content-security-policy": f"{page_policy()}; frame-ancestors 'none'"})

    async def matrix(self, request: Request) -> Response:
        """The matrix of a run as far as it is filled."""
        cells = await self._cells(request)
        if not cells:
            return _html("empty.html.j2", text="No cell is finished yet.")
        return _html("matrix.html.j2", **await asyncio.to_thread(matrix_values, cells))

    async def cell(self, request: Request) -> Response:
        """One cell in detail."""
        cells, query = await self._cells(request), request.query_params
        names = (query.get("defence", ""), query.get("attack", ""))
        values = await asyncio.to_thread(cell_values, cells, *names, with_requests="requests" in query)
        if values is None:
            raise HTTPException(404, "no such cell")
        return _html("cell.html.j2", **values)

    async def models(self, _request: Request) -> Response:
        """The models that may be asked."""
        await self.watch.look()
        return JSONResponse(self._models.listed())

    async def tokens(self, request: Request) -> Response:
        """A conversation token by token."""
        return JSONResponse(await asyncio.to_thread(_weighed, await _body(request), self._models))

    async def chat(self, request: Request) -> Response:
        """One answer, as events while it is written."""
        ask = read_json(Ask, await _body(request))
        return StreamingResponse(answer_events(ask, self._models), media_type="text/event-stream")

    async def _run(self, request: Request) -> Any:
        await self.watch.look()
        run = self.watch.runs.get(request.path_params["run"])
        if run is None or run.folder.fault:
            raise HTTPException(404, "no such run" if run is None else run.folder.fault)
        return run

    async def _cells(self, request: Request) -> list[Any]:
        run = await self._run(request)
        return await asyncio.to_thread(read_matrix, run.folder.path, running=run.summary.state == "running")


def _weighed(data: bytes, models: Models) -> dict[str, Any]:
    from holdfast.view.weighing import Weighed, weigh  # brings torch: a second or more, in a thread

    return weigh(read_json(Weighed, data), models)


async def _body(request: Request) -> bytes:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_BODY:
            raise HTTPException(413, "too much text")
    return bytes(data)


async def _input_error(_request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


async def _client_gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)


@cache
def _environment() -> jinja2.Environment:
    return environment(jinja2.PackageLoader("holdfast.view", "assets"))


def _html(template: str, **values: Any) -> Response:
    return HTMLResponse(_environment().get_template(template).render(**values))


@cache
def _assets() -> Mapping[str, str]:
    texts = {
        name: files("holdfast.view").joinpath("assets", name).read_text(encoding="utf-8")
        for name in (*SCRIPTS, "view.css")
    }
    return {**texts, "shared.js": asset("shared.js"), "page.css": asset("page.css")}
