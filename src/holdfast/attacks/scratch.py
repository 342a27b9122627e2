"""Room for attacked weights and rows: deleted with the run that made it, or by the next one if that was killed."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.config import InputError

PREFIX = ".scratch-"
_OPEN: set[Path] = set()


@contextmanager
def scratch_in(folder: Path) -> Iterator[Path]:
    """A folder of this process's own inside ``folder``; what a killed process of this machine left behind is deleted.

    Within another ``scratch_in`` of the same folder it is the same one, and whoever opened it first deletes it.
    """
    mine = f"{PREFIX}{socket.gethostname()}-"
    scratch = folder / f"{mine}{os.getpid()}"
    if scratch in _OPEN:
        yield scratch
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"{mine}*"):
            maker = old.name.removeprefix(mine)  # of another machine, such as node-2 beside node, it is no number
            if maker.isdigit() and not _is_running(int(maker)):
                shutil.rmtree(old, ignore_errors=True)
        scratch.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    _OPEN.add(scratch)
    try:
        yield scratch
    finally:
        _OPEN.remove(scratch)
        shutil.rmtree(scratch, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != os.getpid()
