"""A temporary folder for attacked weights and rows: deleted with the run that made it, or by the next one if that was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.config import InputError
from holdfast.training.checkpoints.folders import is_alive

PREFIX = ".scratch-"
MACHINE = ".machine"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # the same in all containers of a machine
QUIET = 86_400.0  # seconds
_OPEN: set[Path] = set()


@contextmanager
def scratch_in(folder: Path) -> Iterator[Path]:
    """A folder of this process's own inside ``folder``; what a killed process left behind is deleted.

    Within another ``scratch_in`` of the same folder it is the same one, and whoever opened it first deletes it.
    """
    mine = f"{PREFIX}{socket.gethostname()}-"
    scratch = folder / f"{mine}{os.getpid()}"
    if scratch in _OPEN:
        yield scratch
        return
    _OPEN.add(scratch)
    lock = None
    try:
        lock = _make_locked(scratch, mine)
        yield scratch
    finally:
        _OPEN.remove(scratch)
        shutil.rmtree(scratch, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _make_locked(scratch: Path, mine: str) -> int:
    """Make the folder, delete those that were left behind, and return the descriptor that holds its lock."""
    folder = scratch.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"{PREFIX}*"):
            if _is_left_behind(old, mine):
                shutil.rmtree(old, ignore_errors=True)
        scratch.mkdir(exist_ok=True)
        lock = os.open(scratch, os.O_RDONLY)
        _lock(lock)
        with contextlib.suppress(OSError):  # without it the day's rule holds
            (scratch / MACHINE).write_text(_machine())
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    return lock


def _is_left_behind(scratch: Path, mine: str) -> bool:
    """Whether the process that made it is gone: by its number on this host, elsewhere by its lock.

    A container that was started again has another host name, and its boot id tells that it ran on this machine. Locks of
    other machines cannot be seen on every file system: their folders must also have been left alone for a day.
    """
    maker = scratch.name.removeprefix(mine)  # of another machine, such as node-2 beside node, it is no number
    if maker.isdigit():  # this process's own number: a process before it had the same
        return int(maker) == os.getpid() or not is_alive(int(maker))
    with contextlib.suppress(OSError):
        lock = os.open(scratch, os.O_RDONLY)
        try:
            quiet = time.time() - scratch.stat().st_mtime > QUIET
            marked = scratch / MACHINE
            here = marked.is_file() and marked.read_text() == _machine() != ""
            return (here or quiet) and _lock(lock)
        finally:
            os.close(lock)
    return False


def _machine() -> str:
    return BOOT_ID.read_text().strip() if BOOT_ID.is_file() else ""


def _lock(folder: int) -> bool:
    """Whether nobody else has it; False where the file system has no locks."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
