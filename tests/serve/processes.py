"""Start the fake backend and the server as processes of their own, and end them."""

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from waiting import PATIENCE, wait_for

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


def begun(address: str, key: str, body: bytes, length: int = 100) -> socket.socket:
    """A connection on which a request has been sent, its body perhaps in part."""
    client = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=PATIENCE)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: {length}"
    client.sendall(f"{head}\r\n\r\n".encode() + body)
    return client


def in_flight(address: str) -> float:
    """How many requests the server is at work on."""
    lines = httpx.get(f"{address}/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith("holdfast_in_flight ")).split()[1])
