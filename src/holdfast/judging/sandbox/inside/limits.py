"""What one candidate may use, and the process that it is held to it."""

from __future__ import annotations

import ctypes
import os
import resource

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 1, 4, 38, 36
SIGKILL = 9


def set_limits(cpu_seconds: int, memory_bytes: int, num_threads: int) -> None:
    """Set hard limits, which cannot be raised again. No file can be written and no core dumped; the rest is as given."""
    for which, value in (
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_NPROC, num_threads),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        highest = resource.getrlimit(which)[1]
        value = value if highest == resource.RLIM_INFINITY else min(value, highest)
        resource.setrlimit(which, (value, value))


def drop_user(user: int) -> None:
    """Turn root into a user that owns nothing. For root, limits on processes would do nothing."""
    for number in (user, 65534):
        try:
            os.setgroups([])
            os.setresgid(number, number, number)
            os.setresuid(number, number, number)
        except OSError:
            continue
        return
    raise OSError(f"cannot become user {user} or nobody: still root")


def no_new_privileges() -> None:
    """No setuid program gives anything back; other processes of the same user cannot look in."""
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _prctl(PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Whatever a child leaves behind becomes ours, so that it can be ended."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Whatever ends the process that forked this one ends this one too."""
    _prctl(PR_SET_PDEATHSIG, SIGKILL)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}: {os.strerror(ctypes.get_errno())}")
