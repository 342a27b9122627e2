"""Who may look: only a page that was opened with the token in its address, from this machine.

The token is the first part of every path, so that scripts, streams and links carry it without a cookie. ``Host`` is checked
because another site can point its own name at 127.0.0.1; ``Origin`` and ``Sec-Fetch-Site`` because another site's page can
send requests here.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


class Gate:
    """Lets a request in if its address begins with the token and it comes from a page of this server, or from none."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers 404 to a wrong token, 403 to a wrong Host or Origin; every answer has the headers above."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in present]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        head, _, rest = scope["path"].removeprefix("/").partition("/")
        if problem := _wrong_sender(scope):
            return await PlainTextResponse(problem, 403)(scope, receive, send_guarded)
        if not hmac.compare_digest(head.encode(errors="replace"), self.token.encode()):
            answer = PlainTextResponse("not found: the address needs the token that `holdfast view` printed", 404)
            return await answer(scope, receive, send_guarded)
        inner = {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode(errors="surrogateescape"), "root_path": ""}
        return await self.app(inner, receive, send_guarded)


def _wrong_sender(scope: Scope) -> str | None:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    port = scope["server"][1]
    hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
    if headers.get("host") not in hosts:
        return "wrong Host"
    return _other_site(headers, hosts, changes=scope["method"] not in ("GET", "HEAD"))


def _other_site(headers: Mapping[str, str], hosts: tuple[str, ...], *, changes: bool) -> str | None:
    """A browser tells where a request comes from; a POST must say so."""
    origin = headers.get("origin")
    if (origin is None and changes) or (origin is not None and origin not in [f"http://{host}" for host in hosts]):
        return "wrong Origin"
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return "wrong site"
    return None
