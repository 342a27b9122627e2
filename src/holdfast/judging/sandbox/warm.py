"""The trusted side of one warm sandbox: start it, check that it holds, run candidates in it one after another."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from holdfast.judging.sandbox.inside import landlock, literals
from holdfast.judging.sandbox.inside.frames import HEADER
from holdfast.judging.sandbox.tiers import INSIDE, Tier, missing, open_to_all, readable_paths, start_command

START_SECONDS = REPORT_SECONDS = 20.0
FIRST_USER = 1_500_000_000
_user_numbers = itertools.count()
KNOWN_VARIABLES = {"LC_CTYPE", "PWD"}  # set by Python and bubblewrap themselves


class NoIsolationError(Exception):
    """A tier that does not work here, and why."""


class StoppedError(Exception):
    """A candidate that went over a limit, died, or sent what is no literal."""


class EndedError(StoppedError):
    """Its process has let go of the channel."""

    def __init__(self) -> None:
        super().__init__("its process ended")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one candidate may use in all. It cannot write files, make processes or send anything."""

    seconds: float = 3.0  # by the clock, from its start to the end of the test
    cpu_seconds: int = 4
    memory_bytes: int = 512 << 20  # of address space
    output_bytes: int = 1 << 20  # of standard output, or of one returned value
    num_threads: int = 16


class Report(NamedTuple):
    """How a candidate's process ended."""

    stopped: bool  # still alive when it was told to stop, as one that serves calls is
    signal: int
    code: int
    cpu_seconds: float
    memory_bytes: int


@dataclass
class Candidate:
    """One candidate's process, by its channel. Every wait has the one deadline."""

    channel: socket.socket
    limits: Limits
    deadline: float
    report: Report | None = None

    def send(self, value: Any) -> None:
        """Send a literal."""
        data = literals.dumps(value)
        self._patience()
        try:
            self.channel.sendall(HEADER.pack(len(data)) + data)
        except TimeoutError:
            raise StoppedError(f"time limit of {self.limits.seconds:g} s") from None
        except OSError:
            raise EndedError from None

    def receive(self) -> Any:
        """A literal; raises StoppedError when none comes."""
        (length,) = HEADER.unpack(self._exactly(HEADER.size))
        if length > self.limits.output_bytes:
            raise StoppedError(f"a result of {length} bytes, at most {self.limits.output_bytes}")
        try:
            return literals.loads(self._exactly(length))
        except literals.NotLiteralError as error:
            raise StoppedError(str(error)) from None

    def _exactly(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            self._patience()
            try:
                part = self.channel.recv(length - len(data))
            except TimeoutError:
                raise StoppedError(f"time limit of {self.limits.seconds:g} s") from None
            except OSError:
                part = b""
            if not part:
                raise EndedError
            data += part
        return bytes(data)

    def _patience(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise StoppedError(f"time limit of {self.limits.seconds:g} s")
        self.channel.settimeout(left)


class WarmSandbox:
    """A zygote behind the walls of one tier. Serves one candidate at a time; not for several threads at once."""

    def __init__(self, tier: Tier) -> None:
        if reason := missing(tier):
            raise NoIsolationError(reason)
        self.tier = tier
        self._closed = False
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(START_SECONDS)
        with theirs, tempfile.NamedTemporaryFile(prefix="holdfast-canary-") as canary:
            canary.write(b"canary")
            canary.flush()
            os.chmod(canary.name, 0o644)  # closed by the walls, not by its mode
            self._process = subprocess.Popen(
                [*start_command(tier), json.dumps(_settings(tier, theirs.fileno(), canary.name))],
                env={},  # of bubblewrap itself too: /proc/1/environ would show it
                cwd="/",
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            theirs.close()  # or our own copy would keep the socket open when the zygote dies
            self._check(tier)

    def _check(self, tier: Tier) -> None:
        """Read what the zygote could do inside. Close it and raise ``NoIsolationError`` where a wall does not hold."""
        try:
            hello = self._control.recv(1 << 12)
        except TimeoutError:
            hello = b""
        if not hello:
            self.close()
            assert self._process.stderr is not None
            errors = self._process.stderr.read().decode(errors="replace").strip().splitlines()
            raise NoIsolationError(f"{tier} does not start: {errors[-1][:200] if errors else 'no word from it'}")
        facts = json.loads(hello)
        holes = {
            "it reads the caller's files": facts["canary"],
            "it writes files": facts["writes"],
            "it sees the caller's environment": not set(facts["environment"]) <= KNOWN_VARIABLES,
            "it runs as root": facts["user"] == 0,
            "it sees other processes": tier is Tier.BUBBLEWRAP and facts["pid"] != 1,
        }
        open_holes = [hole for hole, open_ in holes.items() if open_]
        if open_holes and tier is not Tier.BARE:
            self.close()
            raise NoIsolationError(f"{tier} does not hold here: {', '.join(open_holes)}")

    @contextlib.contextmanager
    def candidate(
        self, limits: Limits, *, script: bool = False, stdio: Sequence[int] | None = None
    ) -> Iterator[Candidate]:
        """A fresh process; when the block ends it is over, and ``report`` says how. ``stdio``: its 0 and 1."""
        ours, theirs = socket.socketpair()
        job = {**asdict(limits), "script": script}
        with ours, open(os.devnull, "r+b", buffering=0) as nothing:
            with theirs:
                first_two = list(stdio) if stdio else [nothing.fileno(), nothing.fileno()]
                try:
                    socket.send_fds(self._control, [json.dumps(job).encode()], [*first_two, theirs.fileno()])
                except OSError:
                    self.close()
                    raise NoIsolationError("the sandbox has died") from None
            run = Candidate(ours, limits, time.monotonic() + limits.seconds)
            try:
                yield run
            finally:
                run.report = self._stop()

    def _stop(self) -> Report:
        try:
            self._control.settimeout(REPORT_SECONDS)
            self._control.send(b"stop")
            return Report(**json.loads(self._control.recv(1 << 12)))
        except (OSError, ValueError):
            self.close()
            return Report(True, 9, 0, 0.0, 0)  # everything inside has been ended with it

    @property
    def alive(self) -> bool:
        """Whether it can take a candidate; it may have been killed from outside."""
        return not self._closed and self._process.poll() is None

    def num_processes(self) -> int:
        """How many live in it now: whatever a candidate leaves behind is adopted by the zygote, and counted here."""
        parents = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                parents[int(entry)] = int(stat.read().rpartition(")")[2].split()[1])
        inside = {self._process.pid}
        while more := {pid for pid, parent in parents.items() if parent in inside} - inside:
            inside |= more
        return len(inside)

    def close(self) -> None:
        """End it; with the zygote goes everything inside."""
        self._closed = True
        self._control.close()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _settings(tier: Tier, control: int, canary: str) -> dict[str, Any]:
    root = os.getuid() == 0
    return {
        "control": control,
        "here": "/sandbox" if tier is Tier.BUBBLEWRAP else str(INSIDE.parent),
        "canary": canary,
        "user": _own_user() if root and tier is not Tier.BARE else None,
        "seccomp": tier is not Tier.BARE,
        # Under bubblewrap Landlock is a second wall where the kernel has it.
        "landlock": tier is Tier.LANDLOCK or (tier is Tier.BUBBLEWRAP and landlock.abi() > 0),
        "readable": readable_paths(),
        "own_processes": tier is Tier.BUBBLEWRAP,
        "library_closed": root and tier is Tier.LANDLOCK and not open_to_all(sys.base_prefix),
    }


def _own_user() -> int:
    """A user for this sandbox alone: limits per user count its processes only, and no other process belongs to it."""
    return FIRST_USER + 64 * os.getpid() + next(_user_numbers) % 64
