"""Untrusted Python in a process of its own behind walls of the kernel: see docs/sandbox.md."""

from holdfast.judging.sandbox.pool import Sandboxes, shared_sandboxes
from holdfast.judging.sandbox.tiers import CONFINED, Tier, missing
from holdfast.judging.sandbox.warm import (
    Candidate,
    EndedError,
    Limits,
    NoIsolationError,
    Report,
    StoppedError,
    WarmSandbox,
)

__all__ = [
    "CONFINED",
    "Candidate",
    "EndedError",
    "Limits",
    "NoIsolationError",
    "Report",
    "Sandboxes",
    "StoppedError",
    "Tier",
    "WarmSandbox",
    "missing",
    "shared_sandboxes",
]
