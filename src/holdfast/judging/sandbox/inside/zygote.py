"""The warm process inside the sandbox: it has the library loaded, and forks one child per candidate, never used again.

It speaks with the trusted side over one socket of packets: a job with descriptors comes in, a child starts; "stop" comes in,
the child is ended if it lives, and a report goes out. When that socket closes, everything here ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from . import child, landlock, limits, seccomp

COMMON = """abc array bisect cmath collections collections.abc contextlib copy ctypes dataclasses datetime decimal enum
fractions functools heapq io itertools json math numbers operator os random re statistics string struct sys time types
typing zlib""".split()
"""What programs import most: forked children find it in memory. Every further module makes every fork slower."""
RARE = """argparse ast asyncio base64 binascii calendar codecs csv difflib encodings.idna hashlib html inspect keyword locale
logging mmap multiprocessing.pool pathlib pickle pprint queue resource secrets shlex signal socket subprocess tempfile textwrap
threading traceback unicodedata unittest urllib.parse uuid warnings weakref""".split()
"""The rest of what programs import; loaded where the library's folder is closed to the user that we become."""


def main(settings: dict[str, Any]) -> None:
    """Be confined, say so, serve until the trusted side goes."""
    control = socket.socket(fileno=settings["control"])
    sys.path = [path for path in sys.path if path != settings["here"]]
    for name in (*COMMON, *(RARE if settings["library_closed"] else ())):
        importlib.import_module(name)
    nothing = os.open("/dev/null", os.O_RDWR)
    filter_program = seccomp.build_filter() if settings["seccomp"] else None
    limits.no_new_privileges()
    if settings["landlock"]:
        landlock.restrict_to(settings["readable"])
    if settings["user"] is not None:
        limits.drop_user(settings["user"])
    limits.adopt_orphans()
    gc.collect()
    gc.freeze()  # otherwise every child's collector would touch, and so copy, all of this memory
    control.send(json.dumps(_facts(settings)).encode())
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1 << 12, 3)
        if not message:
            os._exit(0)
        _one_child(control, json.loads(message), [*descriptors, nothing], filter_program, settings)


def _facts(settings: dict[str, Any]) -> dict[str, Any]:
    """What the trusted side checks before it sends any candidate: tried, not assumed."""
    return {
        "pid": os.getpid(),
        "user": os.getuid(),
        "environment": sorted(os.environ),
        "canary": _can_read(settings["canary"]),
        "writes": _can_write(),
    }


def _can_read(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def _can_write() -> bool:
    for folder in ("/", "/tmp", "/dev/shm", os.getcwd()):
        path = f"{folder}/.holdfast-{os.getpid()}"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except OSError:
            continue
        os.unlink(path)
        return True
    return False


def _one_child(
    control: socket.socket,
    job: dict[str, Any],
    descriptors: list[int],
    filter_program: bytes | None,
    settings: dict[str, Any],
) -> None:
    pid = os.fork()
    if pid == 0:
        child.run(job, descriptors, filter_program)
    for descriptor in descriptors[:-1]:
        os.close(descriptor)
    alive = os.pidfd_open(pid)
    ready = select.poll()
    ready.register(control, select.POLLIN)
    ready.register(alive, select.POLLIN)
    stopped = False
    while not (events := dict(ready.poll())).get(control.fileno()):
        if alive in events:
            ready.unregister(alive)  # over by itself: the trusted side still has to say stop
    order = control.recv(16)
    if not select.select([alive], [], [], 0)[0]:
        stopped = True
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    os.close(alive)
    _end_leftovers(settings["own_processes"])
    if not order:
        os._exit(0)
    report = {
        "stopped": stopped,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "memory_bytes": usage.ru_maxrss * 1024,
    }
    control.send(json.dumps(report).encode())


def _end_leftovers(own_processes: bool) -> None:
    """End every process that a candidate left. ``own_processes``: we may end every process that we can signal."""
    while True:
        if own_processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            if not own_processes:
                return  # seccomp let no process be made; on the bare tier nothing is promised
            time.sleep(0.001)
