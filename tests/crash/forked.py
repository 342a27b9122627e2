"""Children forked from this process, which has torch loaded already: a run, its death and its second life in 0.1 s."""

from __future__ import annotations

import gc
import os
import signal
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist

from holdfast.training.checkpoints import durable
from waiting import PATIENCE

Work = Callable[[], None]


def preload(work: Work) -> None:
    """Run ``work`` here once, so that children find imported what it imports late (torch's compiler: two seconds)."""
    with patch.object(durable, "at_point"):
        work()


def in_child(work: Work, log: Path) -> int:
    """Run ``work`` in a forked child; returns its exit code, or minus the signal that ended it."""
    pid = start_child(work, log)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise TimeoutError(f"the child did not end within {PATIENCE} s")


def start_child(work: Work, log: Path) -> int:
    """Fork; the child leaves a traceback in ``log`` if it fails, and never returns."""
    # A child cannot use the OpenMP threads of its parent.
    torch.set_num_threads(1)
    pid = os.fork()
    if pid:
        return pid
    code = 1
    gc.freeze()  # what the parent loaded is no garbage of the child's: looking through it would take a second
    try:
        work()
        code = 0
    except BaseException:
        log.write_text(traceback.format_exc())
    finally:
        os._exit(code)


def in_processes(
    work: Callable[[int], None], place: Path, count: int = 2, patience: timedelta = timedelta(seconds=PATIENCE)
) -> None:
    """Run ``work(rank)`` in forked processes that can talk to each other, and wait so long for an answer."""

    def process(rank: int) -> None:
        meet = f"file://{place}/meet"
        dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=count, timeout=patience)
        work(rank)
        dist.destroy_process_group()

    pids = [start_child(lambda r=rank: process(r), place / f"error-{rank}") for rank in range(count)]
    end = time.monotonic() + PATIENCE
    codes: dict[int, int] = {}
    while len(codes) < count and time.monotonic() < end:
        for rank, pid in enumerate(pids):
            if rank not in codes and (found := os.waitpid(pid, os.WNOHANG))[0]:
                codes[rank] = os.waitstatus_to_exitcode(found[1])
        time.sleep(0.01)
    for rank in set(range(count)) - codes.keys():
        os.kill(pids[rank], 9)
        os.waitpid(pids[rank], 0)
    told = "\n".join(path.read_text() for path in place.glob("error-*"))
    assert codes == dict.fromkeys(range(count), 0), told


def finish(work: Work, log: Path) -> None:
    """Run ``work`` in a child that must end well."""
    code = in_child(work, log)
    assert code == 0, f"exit code {code}: {log.read_text() if log.exists() else 'no traceback'}"


def die_now() -> None:
    """What the machine's out-of-memory killer does: no handler, no clean-up, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)


def go_on(point: str) -> None:
    """The hook of a run that nobody disturbs."""


def die_at(occurrence: int, before: Callable[[str], None] = go_on) -> Callable[[str], None]:
    """A hook that kills the process at the n-th named point it is told about (from 0), after ``before(point)``."""
    seen = 0

    def on_point(point: str) -> None:
        nonlocal seen
        if seen == occurrence:
            before(point)
            die_now()
        seen += 1

    return on_point


def die_in_write(occurrence: int) -> None:
    """Make the n-th write of the file layer stop halfway, killed."""
    seen = 0

    def write_half(descriptor: int, data: memoryview) -> int:
        nonlocal seen
        if seen == occurrence:
            os.write(descriptor, data[: len(data) // 2])
            die_now()
        seen += 1
        return os.write(descriptor, data)

    durable.write_some = write_half
