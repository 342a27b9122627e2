"""Warm sandboxes for several threads; a dead one is replaced; the strongest tier that works is taken."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator, Sequence

from holdfast.config import InputError
from holdfast.judging.sandbox.tiers import CONFINED, Tier
from holdfast.judging.sandbox.warm import NoIsolationError, WarmSandbox


class Sandboxes:
    """Warm sandboxes, kept between candidates, as many as are used at once. Thread-safe."""

    def __init__(self, tiers: Sequence[Tier] = CONFINED) -> None:
        self._idle: list[WarmSandbox] = []
        self._lock = threading.Lock()
        self._tier, first = _strongest(tiers)
        self._idle.append(first)

    @property
    def tier(self) -> Tier:
        """The tier that works here."""
        return self._tier

    @contextlib.contextmanager
    def lease(self) -> Iterator[WarmSandbox]:
        """One of them, for this thread alone while the block lasts."""
        with self._lock:
            self._idle = [sandbox for sandbox in self._idle if sandbox.alive]
            sandbox = self._idle.pop() if self._idle else None
        sandbox = sandbox or WarmSandbox(self._tier)
        try:
            yield sandbox
        finally:
            if sandbox.alive:
                with self._lock:
                    self._idle.append(sandbox)

    def close(self) -> None:
        """End those that are idle."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()


def _strongest(tiers: Sequence[Tier]) -> tuple[Tier, WarmSandbox]:
    reasons = []
    for tier in tiers:
        try:
            return tier, WarmSandbox(tier)
        except NoIsolationError as error:
            reasons.append(str(error))
    raise InputError(f"untrusted code cannot be confined here, so it is not run: {'; '.join(reasons)}")


_shared: dict[tuple[int, tuple[Tier, ...]], Sandboxes] = {}
_starting = threading.Lock()


def shared_sandboxes(*, tier: Tier | None = None, allow_bare: bool = False) -> Sandboxes:
    """This process's sandboxes, started on first use. ``bare`` only ever with ``allow_bare``."""
    wanted = (tier,) if tier is not None else (*CONFINED, *((Tier.BARE,) if allow_bare else ()))
    if Tier.BARE in wanted and not allow_bare:
        raise InputError("the bare tier confines nothing; it is used only with allow_bare=True")
    key = (os.getpid(), wanted)  # a fork must not share its parent's sockets
    with _starting:
        if key not in _shared:
            _shared[key] = Sandboxes(wanted)
            atexit.register(_shared[key].close)
        return _shared[key]
