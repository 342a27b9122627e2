"""What the main process does once for all processes, however long it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch.distributed as dist

Alive = Callable[..., None]
"""To be called after every piece of a long work; what it is given does not matter."""


@contextmanager
def main_first() -> Iterator[Alive]:
    """The main process goes through the body first and the others after it, as with accelerate's ``main_process_first``.

    There the others wait in one collective, which gives up after ten minutes (NCCL) or thirty (gloo). Here they wait from
    one sign of life of the main process to the next.
    """
    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    main = not several or dist.get_rank() == 0
    while not main and _told(going_on=True):
        pass
    yield _sign if several and main else _no_sign
    if several and main:
        _told(going_on=False)


def _told(*, going_on: bool) -> bool:
    """What the main process says, as every process hears it."""
    said = [going_on]
    dist.broadcast_object_list(said)
    return said[0]


def _sign(*_: object) -> None:
    _told(going_on=True)


def _no_sign(*_: object) -> None:
    """Nobody waits."""
