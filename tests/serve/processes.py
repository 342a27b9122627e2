"""Start the fake backend and the server as processes of their own, and end them."""

import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from forked import Forked
from waiting import PATIENCE, wait_for

HERE = Path(__file__).parent


@contextlib.contextmanager
def running(script: str, *arguments: str, stderr: int | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address under which it answers, and its process."""
    command = [sys.executable, str(HERE / script), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        assert process.stdout is not None
        address = f"http://127.0.0.1:{int(process.stdout.readline())}"
        wait_for(lambda: health(address))  # the fake backend has no such page, and says so
        yield address, process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def health(address: str) -> int | None:
    """The status of its answer, if there is one. Not by httpx, which reads all certificates before each question."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=PATIENCE)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@contextlib.contextmanager
def server(backends: list[str], **options: Any) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    made = json.dumps({"backends": [f"{backend}/v1" for backend in backends], **options})
    with running("tagged_server.py", made, stderr=subprocess.PIPE if options.get("log") else None) as found:
        yield found


@contextlib.contextmanager
def holdfast_serve(*arguments: str, script: Path | None = None) -> Iterator[str]:
    """`holdfast serve` as a user starts it, on a free port; its address. Its log is shown where it does not start."""
    process = Forked("serve", *arguments, "--port", "0", script=script)
    try:
        yield address_in(process.stderr, process)
    finally:
        process.terminate()
        process.wait()


def address_in(log: Path, process: Forked) -> str:
    """From when it answers."""
    while process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:[1-9]\d*(?=/v1$)", log.read_text(), re.MULTILINE)
        if found and health(found[0]) == 200:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(f"the server ended: {log.read_text()}")


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
