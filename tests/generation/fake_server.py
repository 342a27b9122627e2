"""A real HTTP server that speaks the chat-completions protocol, with faults on request."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from waiting import wait_for

Answer = Callable[[list[dict[str, str]]], str]
FAULTS = ("error500", "rate429", "bad400", "slow", "not json", "no choices", "hang up")
CUT = "[cut]"  # at the end of an answer: the server stopped there because of its length


@dataclass
class Seen:
    """What the server was asked."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Answer, key: str | None, together: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.key, self.together, self.seen = answer, key, together, Seen()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that went away is part of the tests
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        seen = self.server.seen
        with seen.lock:
            seen.bodies.append(body)
            seen.headers.append(dict(self.headers))
            seen.at_once += 1
            seen.most_at_once = max(seen.most_at_once, seen.at_once)
        if self.server.together > 1:
            wait_for(lambda: seen.most_at_once >= self.server.together)
            time.sleep(0.1)  # for one more than allowed to come; where it is not enough, nothing fails
        try:
            self.reply(body)
        finally:
            with seen.lock:
                seen.at_once -= 1

    def reply(self, body: dict[str, Any]) -> None:
        path = "completions" if "prompt" in body else "chat/completions"
        if self.path != f"/v1/{path}" or body["model"] != "known":
            return self.send(404, {"error": "no such model"})
        key = self.server.key
        if key is not None and self.headers.get("Authorization") != f"Bearer {key}":
            return self.send(401, {"error": "who are you?"})
        messages = body["messages"] if "messages" in body else [{"role": "user", "content": body["prompt"]}]
        text = messages[-1]["content"]
        fault = next((name for name in FAULTS if text.startswith(f"{name}*")), None)
        with self.server.seen.lock:
            self.server.seen.tries[text] += 1
            tries = self.server.seen.tries[text]
        if fault and tries <= int(text.split("*")[1].split()[0]):
            return self.fail(fault)
        said = self.server.answer(messages)
        reason = "length" if said.endswith(CUT) else "stop"
        said = said.removesuffix(CUT)
        written = {"text": said} if "prompt" in body else {"message": {"role": "assistant", "content": said}}
        choice = {**written, "finish_reason": reason}
        return self.send(200, {"choices": [choice]})

    def fail(self, fault: str) -> None:
        if fault == "slow":
            self.rfile.read(1)  # nothing comes: it ends when the client has had enough
            self.close_connection = True
            return None
        if fault == "hang up":
            self.close_connection = True
            return None
        if fault == "not json":
            return self.send(200, "<html>busy</html>")
        if fault == "no choices":
            return self.send(200, {"choices": []})
        return self.send(int(fault[-3:]), {"error": fault})

    def send(self, status: int, content: Any) -> None:
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def serving(answer: Answer, *, key: str | None = None, together: int = 1) -> Iterator[tuple[str, Seen]]:
    """``(url, seen)``. A request whose text begins with 'FAULT*N ' fails that way N times before it is answered.

    ``together``: the first answer is given when so many requests have been there at once.
    """
    server = Server(answer, key, together)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", server.seen
    finally:
        server.shutdown()
        server.server_close()
