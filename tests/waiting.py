"""Waiting for events. No test depends on how fast the machine is: the end of a wait only stops what would never come."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 900.0  # seconds


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Until ``condition()`` is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run`` in a thread of its own: a browser test beside it keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
