"""The live page's server in a thread of the test, and as a process; run directories to look at."""

import contextlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from holdfast.view import make_view
from reports.runs import step_rows, write_lines
from waiting import wait_for

TOKEN = "a-token-that-nobody-guesses"


@contextlib.contextmanager
def serving(root: Path, models: tuple[str, ...] = ()) -> Iterator[str]:
    """The address of the page, token and all."""
    app = make_view(root, TOKEN, models, has_ended=lambda: server.should_exit)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/{TOKEN}/"
    finally:
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def holdfast_view(*words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`holdfast view` as a user starts it: what it printed first, and its process."""
    command = [sys.executable, "-m", "holdfast", "view", *words, "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def write_training(folder: Path, num_steps: int = 20, **config: object) -> Path:
    """A run that was stopped: config, log and clock."""
    folder.mkdir(parents=True)
    settings = {"model": {"name": "tiny:aligned"}, "training": {"max_steps": 100}, "streams": [{"objective": "csft"}]}
    (folder / "config.yaml").write_text(json.dumps({**settings, **config}))
    write_lines(folder / "steps.jsonl", step_rows(num_steps))
    write_lines(folder / "timing.jsonl", [{"step": n, "tokens_per_second": 1000.0} for n in range(1, num_steps + 1)])
    return folder


def urls_in(text: str) -> list[str]:
    return re.findall(r"https?://\S+", text)
