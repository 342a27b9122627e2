"""The real server with a judge for tests, in a process of its own: `python tagged_server.py JSON` prints its port.

The judge reads the tags of the fake backend. Whether it fails on a text is decided by the text's hash, so that a client can
tell afterwards which answers were never judged.
"""

import asyncio
import hashlib
import json
import logging
import socket
import sys
import time
from typing import Any

import uvicorn

from holdfast.judging import find_reward
from holdfast.records import Verdict
from holdfast.serve import NullJudge, ServerSettings, http_backend, make_app


def fault(text: str, percent: int) -> str | None:
    """Which fault the judge has on this text, if any."""
    number = int(hashlib.sha256(text.encode()).hexdigest(), 16)
    return ("raises", "hangs", "garbled", "truthy")[number // 100 % 4] if number % 100 < percent else None


class TagJudge:
    name = "tags"

    def __init__(self, percent: int, hangs: float) -> None:
        self.percent, self.hangs = percent, hangs

    def __call__(self, prompt: Any, response: str) -> Any:
        asked = prompt[-1].visible
        wrong = asked.removeprefix("judge:") if asked.startswith("judge:") else fault(response, self.percent)
        if wrong == "raises":
            raise RuntimeError("judge down")
        if wrong == "hangs":
            time.sleep(self.hangs)
        if wrong == "garbled":
            return {"safe": True}
        if wrong == "truthy":
            return Verdict("yes", 1.0, "not a bool", self.name)  # type: ignore[arg-type]
        return Verdict("[bad]" not in response, 1.0, "read the tag", self.name)

    def refuses(self, prompt: Any, response: str) -> bool:
        return False


def main(options: dict[str, Any]) -> None:
    settings = ServerSettings(**{"keys": tuple(options.pop("keys", ())), **options.pop("settings", {})})
    backends = [
        http_backend(
            url, "fake", key=None, seconds=settings.backend_seconds, logprobs=options.get("reward") == "likelihood"
        )
        for url in options["backends"]
    ]
    judge = NullJudge() if options.get("null") else TagJudge(options.get("judge_faults", 0), settings.judge_seconds + 1)
    if options.get("log"):
        logging.basicConfig(level=logging.INFO)
    app = make_app(backends, judge, settings, reward=find_reward(options.get("reward", "none")))
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # or asyncio leaves Nagle on
    listening.bind(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, backlog=2048))
    asyncio.run(server.serve([listening]))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
