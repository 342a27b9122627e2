"""The file layer of a run: what it wrote is on the disk or an error says why; tests can stop it at any named point.

Everything that saves goes through this module's attributes, so a test can replace ``at_point`` (to be told, or to die,
at each named point) and ``write_some`` (to run out of space, or to die, halfway through the n-th write).
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

from holdfast.config import InputError

POINTS = (
    "before-row",
    "after-row",
    "before-sweep",
    "before-temp",
    "after-temp",
    "before-file",
    "after-file",
    "before-sync",
    "synced-file",
    "before-manifest",
    "after-manifest",
    "before-rename",
    "after-rename",
    "after-commit",
    "before-prune",
    "hidden-old",
    "mid-prune",
    "after-prune",
)
"""The named points of saving, in order. One that concerns a file is told as ``point:file``."""


class CheckpointError(InputError):
    """A checkpoint that cannot be saved or used: one line that names the file and says what to do."""


def _go_on(_point: str) -> None:
    """In production the named points do nothing."""


at_point: Callable[[str], None] = _go_on
write_some: Callable[[int, memoryview], int] = os.write


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file and wait until it is on the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    except OSError as error:
        raise _named(error, path) from error
    finally:
        os.close(descriptor)


def append(path: Path, data: bytes) -> None:
    """Append in one write. If the disk has no room for all of it, none of it stays."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        size = os.fstat(descriptor).st_size
        try:
            _write_all(descriptor, data)
        except OSError as error:
            os.ftruncate(descriptor, size)
            raise _named(error, path) from error
    finally:
        os.close(descriptor)


def truncate(path: Path, size: int) -> None:
    """Cut a file to its first ``size`` bytes and wait until that is on the disk."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise _named(error, path) from error
    finally:
        os.close(descriptor)


def os_error(error: BaseException | None) -> OSError | None:
    """The system's error behind an exception, if there is one.

    safetensors and tokenizers write from Rust: their exceptions carry the error number in the text alone.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error
        if found := re.search(r"\(os error (\d+)\)", str(error)):
            number = int(found[1])
            return OSError(number, os.strerror(number))
        error = error.__cause__
    return None


def is_full(error: OSError) -> bool:
    """Whether the disk, the quota or the size limit was reached."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[write_some(descriptor, left) :]


def _named(error: OSError, path: Path) -> OSError:
    """The same error with its file: ``os.write`` and ``os.fsync`` do not know it."""
    return OSError(error.errno, error.strerror, str(path))
