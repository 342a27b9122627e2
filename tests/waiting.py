"""Waiting for events. No test depends on how fast the machine is: the end of a wait only stops what would never come."""

import time
from collections.abc import Callable

PATIENCE = 900.0  # seconds


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Until ``condition()`` is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
