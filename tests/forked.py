"""`holdfast ARGUMENTS` in a process of its own that does not import torch again: a fork of one that has imported everything.

It is a real process with its own signals, environment, folder and exit code; what a fresh interpreter would import is there
already, which saves seconds on every start. So are the workers of a matrix that it runs. Tests of what is imported, and of
launchers, start fresh interpreters.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import multiprocessing
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import util
from pathlib import Path
from typing import NoReturn

from waiting import PATIENCE

IMPORTED = ["holdfast.attacks.matrix", "holdfast.training.trainer", "holdfast.cli"]
SERVER_OF_FORKS = "from multiprocessing.forkserver import main"
_CONTEXT = multiprocessing.get_context("forkserver")


class Forked:
    """As much of ``subprocess.Popen`` as tests use. What it prints goes to the files ``stdout`` and ``stderr``."""

    def __init__(
        self,
        *arguments: object,
        script: Path | None = None,  # of the tests or the docs, instead of `holdfast`
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        start_new_session: bool = False,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        said = Path(self._folder.name)
        self.stdout, self.stderr = said / "stdout", said / "stderr"
        for file in (self.stdout, self.stderr):
            file.touch()
        words = [str(script or "holdfast"), *map(str, arguments)]
        start = (words, script, cwd or Path.cwd(), dict(os.environ if env is None else env), said, start_new_session)
        _CONTEXT.set_forkserver_preload(IMPORTED)
        self._process = _CONTEXT.Process(target=_main, args=start)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Its exit code, when it has ended."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("holdfast", timeout, self.stdout.read_bytes(), self.stderr.read_bytes())
        return code

    def done(self) -> subprocess.CompletedProcess[str]:
        """Exit code and everything it said, when it has ended."""
        code = self.wait()
        return subprocess.CompletedProcess(["holdfast"], code, self.stdout.read_text(), self.stderr.read_text())


def _main(
    words: list[str], script: Path | None, cwd: Path, env: dict[str, str], said: Path, start_new_session: bool
) -> None:
    if start_new_session:
        os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    for name, number in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(said / name, os.O_WRONLY | os.O_APPEND), number)
        setattr(sys, name, io.TextIOWrapper(os.fdopen(number, "wb", closefd=False), line_buffering=number == 2))
    sys.argv = words
    gc.freeze()
    _keep_one_that_did_nothing()
    try:
        if script is None:
            runpy.run_module("holdfast", run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(script).resolve().parent))
            runpy.run_path(str(script), run_name="__main__")
    finally:
        atexit._run_exitfuncs()


def _keep_one_that_did_nothing() -> None:
    """Fork once more. When workers are wanted, they are forks of that one: a fresh interpreter would import torch again.

    Like the fresh one it has registered nothing and loaded nothing. It gets the files and the blocked signals of its start.
    """
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        _become_a_server_of_forks(theirs)
    theirs.close()
    fresh = util.spawnv_passfds
    waiting = [pid]

    def started(path: bytes, words: Sequence[str], files: Sequence[int]) -> int:
        if not waiting or not words[-1].startswith(SERVER_OF_FORKS):
            return int(fresh(path, words, files))
        blocked = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        socket.send_fds(ours, [json.dumps([words[-1], blocked]).encode()], list(files))
        return waiting.pop()

    util.spawnv_passfds = started


def _become_a_server_of_forks(pipe: socket.socket) -> NoReturn:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until it is known what the workers shall hear
    try:
        os.closerange(3, pipe.fileno())
        os.closerange(pipe.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        said, files, *_ = socket.recv_fds(pipe, 1 << 20, 2)
        if said:  # else the other one has ended without workers
            code, blocked = json.loads(said)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            exec(re.sub(r"main\(\d+, \d+", "main({}, {}".format(*files), code), {})
    finally:
        os._exit(0)
