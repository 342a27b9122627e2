"""Start the fake backend and the server as processes of their own, and end them."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from waiting import wait_for

HERE = Path(__file__).parent


@contextlib.contextmanager
def running(script: str, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address under which it answers, and its process."""
    process = subprocess.Popen([sys.executable, str(HERE / script), *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = f"http://127.0.0.1:{int(process.stdout.readline())}"
        wait_for(lambda: _answers(address))
        yield address, process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def _answers(address: str) -> bool:
    try:
        httpx.get(address + "/healthz")
    except httpx.HTTPError:
        return False
    return True


@contextlib.contextmanager
def server(backends: list[str], **options: Any) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    made = json.dumps({"backends": [f"{backend}/v1" for backend in backends], **options})
    with running("tagged_server.py", made) as found:
        yield found
