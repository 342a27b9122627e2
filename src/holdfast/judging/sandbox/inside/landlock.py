"""Landlock (Linux 5.13+): from now on this process and its children read the given folders and touch nothing else."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG, PATH_BENEATH = 1, 1
READ_FILE, READ_DIR = 1 << 2, 1 << 3
RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many bits of file system rights each version knows
TCP, SCOPES = 0b11, 0b11  # bind and connect; abstract unix sockets and signals


def abi() -> int:
    """The version that this kernel offers; 0 where it has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, int(libc.syscall(CREATE_RULESET, None, 0, VERSION_FLAG)))


def restrict_to(readable: Sequence[str]) -> None:
    """Only reading, only beneath ``readable``; no TCP (ABI 4), no signals or abstract sockets to outside (ABI 6).

    What is open already stays usable. UDP, unix sockets by path and the mere existence of files are not covered: seccomp
    takes care of sockets.
    """
    version = abi()
    if version == 0:
        raise OSError("this kernel has no Landlock")
    handled = (1 << RIGHTS_BY_ABI.get(version, 16)) - 1
    attributes = struct.pack("=QQQ", handled, TCP, SCOPES)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _call(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    for path in readable:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights = READ_FILE | READ_DIR if os.path.isdir(path) else READ_FILE
        _call(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", rights, folder), 0)
        os.close(folder)
    _call(RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"landlock: {os.strerror(code)}")
    return result
