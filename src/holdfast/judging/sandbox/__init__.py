"""Untrusted Python in a process of its own behind walls of the kernel: see docs/sandbox.md."""

from holdfast.judging.sandbox.limits import Limits
from holdfast.judging.sandbox.pool import Sandboxes, shared_sandboxes
from holdfast.judging.sandbox.tiers import CONFINED, Tier, find_tier, missing
from holdfast.judging.sandbox.warm import Candidate, Ended, NoIsolation, Report, Stopped, WarmSandbox

__all__ = [
    "CONFINED",
    "Candidate",
    "Ended",
    "Limits",
    "NoIsolation",
    "Report",
    "Sandboxes",
    "Stopped",
    "Tier",
    "WarmSandbox",
    "find_tier",
    "missing",
    "shared_sandboxes",
]
