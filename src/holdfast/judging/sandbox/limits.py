"""What one candidate may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What one candidate may use in all. It cannot write files, make processes or send anything."""

    seconds: float = 3.0  # by the clock, from its start to the end of the test
    cpu_seconds: int = 4
    memory_bytes: int = 512 << 20  # of address space
    output_bytes: int = 1 << 20  # of standard output, or of one returned value
    num_threads: int = 16
