"""Run hostile candidates in a sandbox and say what got through."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.judging.code import check_code
from holdfast.judging.sandbox.hostile.snippets import HOSTILE, Snippet, hostile_test
from holdfast.judging.sandbox.pool import Sandboxes
from holdfast.judging.sandbox.warm import Limits

LIMITS = Limits(seconds=0.5, cpu_seconds=1, memory_bytes=256 << 20)
VARIABLE = "HOLDFAST_CANARY"


class Outcome(NamedTuple):
    """What one hostile candidate achieved: nothing, if all is well."""

    name: str
    label: str
    scored: bool  # it forged a pass, or brought the canary back
    survived: bool  # a process of its own outlived it
    killed_sandbox: bool  # the warm sandbox had to be replaced: no harm, but it costs time
    reason: str

    @property
    def got_through(self) -> bool:
        """Anything that must not happen."""
        return self.scored or self.survived


def run_hostile(sandboxes: Sandboxes, snippets: Sequence[Snippet] = HOSTILE) -> Iterator[Outcome]:
    """One outcome per candidate. A canary is planted in a file, in this process's environment and behind a socket."""
    canary = f"canary-{secrets.token_hex(8)}"
    with _planted(canary) as path:
        for snippet in snippets:
            yield _outcome(sandboxes, snippet, canary, path)


def _outcome(sandboxes: Sandboxes, snippet: Snippet, canary: str, path: str) -> Outcome:
    with sandboxes.lease() as sandbox:
        before = sandbox.num_processes()
    test = hostile_test(snippet, canary, path)
    verdict = check_code(snippet.code, test, "f", limits=LIMITS, sandboxes=sandboxes)
    with sandboxes.lease() as other:
        return Outcome(
            snippet.name,
            snippet.label,
            scored=verdict.score != 0.0,
            survived=sandbox.num_processes() > before if sandbox.alive else False,
            killed_sandbox=other is not sandbox,
            reason=verdict.reason,
        )


@contextlib.contextmanager
def _planted(canary: str) -> Iterator[str]:
    """The secret in the three places where a caller keeps such things."""
    os.environ[VARIABLE] = canary
    try:
        with tempfile.NamedTemporaryFile("w", prefix="holdfast-canary-") as file, _listening():
            file.write(canary)
            file.flush()
            os.chmod(file.name, 0o644)
            yield file.name
    finally:
        del os.environ[VARIABLE]


@contextlib.contextmanager
def _listening() -> Iterator[None]:
    """An abstract unix socket that anyone could connect to, were sockets allowed."""
    with socket.socket(socket.AF_UNIX) as server:
        with contextlib.suppress(OSError):  # another run is listening: as good
            server.bind("\0holdfast-canary")
            server.listen()
        yield
