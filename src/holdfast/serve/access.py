"""Who may ask, how much and how often."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import OrderedDict

from starlette.requests import Request

from holdfast.serve.protocol import ProtocolError
from holdfast.serve.settings import ServerSettings

MAX_CALLERS = 10_000  # remembered by the rate limit; the longest unseen are forgotten


class Access:
    """Who is let in. Keys are compared by digest in constant time, all of them every time."""

    def __init__(self, settings: ServerSettings) -> None:
        self._digests = [_digest(key) for key in settings.keys]
        self._max_bytes, self._seconds = settings.max_body_bytes, settings.body_seconds
        self._bucket = TokenBuckets(settings.requests_per_minute) if settings.requests_per_minute else None

    def admit(self, request: Request) -> None:
        """Raise ``ProtocolError`` 401 for a wrong key, 429 for too many requests."""
        caller = request.client.host if request.client else "unknown"
        if self._digests:
            given = _digest(request.headers.get("authorization", "").removeprefix("Bearer ").strip())
            matches = [hmac.compare_digest(given, digest) for digest in self._digests]
            if not any(matches):
                raise ProtocolError(401, "a valid API key is needed", "invalid_api_key", "authentication_error")
            caller = given.hex()
        if self._bucket is not None and not self._bucket.take(caller):
            raise ProtocolError(429, "too many requests; try again later", "rate_limit_exceeded", "rate_limit_error")

    async def body(self, request: Request) -> bytes:
        """The request's body. Raises ``ProtocolError`` 408 when it does not come in time, 413 as soon as it is too large."""
        try:
            return await asyncio.wait_for(self._read(request), self._seconds)
        except TimeoutError:
            raise ProtocolError(408, f"the body did not come within {self._seconds:g} s", "timeout") from None

    async def _read(self, request: Request) -> bytes:
        claimed = request.headers.get("content-length", "0")
        if not claimed.isdigit() or int(claimed) > self._max_bytes:
            raise self._too_large()
        data = bytearray()
        async for part in request.stream():
            data += part
            if len(data) > self._max_bytes:
                raise self._too_large()
        return bytes(data)

    def _too_large(self) -> ProtocolError:
        return ProtocolError(413, f"the body has more than {self._max_bytes} bytes", "too_large")


class TokenBuckets:
    """A burst of a minute's worth, refilled evenly."""

    def __init__(self, per_minute: float) -> None:
        self._rate, self._full = per_minute / 60, max(1.0, per_minute)
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str, now: float | None = None) -> bool:
        """Whether this caller may have one more now."""
        now = time.monotonic() if now is None else now
        level, then = self._levels.pop(caller, (self._full, now))
        level = min(self._full, level + (now - then) * self._rate)
        allowed = level >= 1
        self._levels[caller] = (level - allowed, now)
        if len(self._levels) > MAX_CALLERS:
            self._levels.popitem(last=False)
        return allowed


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
