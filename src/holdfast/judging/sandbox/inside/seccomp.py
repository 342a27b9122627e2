"""A seccomp filter: computing is allowed, reaching out kills the process, anything unknown does not exist (ENOSYS)."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from .syscalls import BY_ARGUMENT, CAPABILITIES, COMPUTING, architecture, numbers

LOAD, JUMP_EQUAL, JUMP_GREATER_EQUAL, JUMP_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = (
    0,
    4,
    16,
)  # offsets in struct seccomp_data; arguments are 64 bits, low half first
CLONE_THREAD, AF_UNIX = 0x10000, 1
HARMLESS_IOCTLS = (0x5401, 0x5421, 0x541B, 0x5450, 0x5451)  # TCGETS, FIONBIO, FIONREAD, FIONCLEX, FIOCLEX
HARMLESS_FCNTLS = (0, 1, 2, 3, 4, 1030)  # duplicate, flags; not F_SETOWN, which sends signals to others
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
_TGKILL = numbers(BY_ARGUMENT)["tgkill"]

Ops = list[bytes]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _return(action: int) -> bytes:
    return _op(RETURN, action)


def _argument(index: int, *, high: bool = False) -> bytes:
    return _op(LOAD, ARGUMENTS_AT + 8 * index + 4 * high)


def _when(number: int, body: Ops) -> Ops:
    """``body`` must end in a return on every way through it."""
    return [_op(JUMP_EQUAL, number, 0, len(body)), *body]


def _allow_equal(index: int, values: tuple[int, ...], otherwise: int) -> Ops:
    """Allow where the argument's low half is one of ``values``."""
    tests = [op for value in values for op in (_op(JUMP_EQUAL, value, 0, 1), _return(ALLOW))]
    return [_argument(index), *tests, _return(otherwise)]


def build_filter() -> bytes:
    """The filter but for the rule that names the process itself: made once, used for every child."""
    by_argument = numbers(BY_ARGUMENT)
    program = [
        _op(LOAD, ARCHITECTURE_AT), _op(JUMP_EQUAL, architecture(), 1, 0), _return(KILL),
        _op(LOAD, NUMBER_AT), _op(JUMP_GREATER_EQUAL, 0x40000000, 0, 1), _return(KILL),  # x32 calls on x86_64
    ]  # fmt: skip
    for number in numbers(COMPUTING).values():
        program += _when(number, [_return(ALLOW)])
    for number in numbers(CAPABILITIES).values():
        program += _when(number, [_return(KILL)])
    thread = [_argument(0), _op(JUMP_SET, CLONE_THREAD, 0, 1), _return(ALLOW), _return(KILL)]
    program += _when(by_argument["clone"], thread)  # clone3 is unknown here, so libc falls back to clone
    program += _when(by_argument["ioctl"], _allow_equal(1, HARMLESS_IOCTLS, ERRNO | errno.ENOTTY))
    program += _when(by_argument["fcntl"], _allow_equal(1, HARMLESS_FCNTLS, ERRNO | errno.EINVAL))
    program += _when(by_argument["prlimit64"], _allow_equal(0, (0,), KILL))
    program += _when(by_argument["socketpair"], _allow_equal(0, (AF_UNIX,), KILL))
    no_address = [_argument(4), _op(JUMP_EQUAL, 0, 1, 0), _return(KILL)]
    no_address += [_argument(4, high=True), _op(JUMP_EQUAL, 0, 1, 0), _return(KILL), _return(ALLOW)]
    program += _when(by_argument["sendto"], no_address)
    return b"".join([*program, _return(ERRNO | errno.ENOSYS)])


def install(program: bytes) -> None:
    """Confine this process, for good. It may send signals to itself and to no other process."""
    own = _when(_TGKILL, _allow_equal(0, (os.getpid(),), KILL))
    code = b"".join([_op(LOAD, NUMBER_AT), *own, program])
    holder = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(holder))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")
