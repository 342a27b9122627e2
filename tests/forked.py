"""`holdfast ARGUMENTS` in a process of its own that does not import torch again: a fork of one that has imported everything.

It is a real process with its own signals, environment, folder and exit code; what a fresh interpreter would import is there
already, which saves seconds on every start. Tests of what is imported, and of launchers, start fresh interpreters.
"""

from __future__ import annotations

import atexit
import gc
import io
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from waiting import PATIENCE

IMPORTED = ["holdfast.attacks.matrix", "holdfast.training.trainer", "holdfast.cli"]
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
    try:
        if script is None:
            runpy.run_module("holdfast", run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(script).resolve().parent))
            runpy.run_path(str(script), run_name="__main__")
    finally:
        atexit._run_exitfuncs()
