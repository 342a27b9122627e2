"""Several backends as one: the least busy first; one that fails rests a while, and another is tried."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

from holdfast.serve.backends import Backend, BackendError, Drawn, Piece, RequestRefusedError
from holdfast.serve.protocol import AnswerRequest

REST_SECONDS = 2.0
MAX_TRIES = 2


class Balancer:
    """Draws from one of several backends. Not thread-safe: it lives in the server's event loop."""

    def __init__(
        self,
        backends: Sequence[Backend],
        on_error: Callable[[str, str], None],
        on_short: Callable[[int, int], None] = lambda _drawn, _wanted: None,
    ) -> None:
        self.backends = list(backends)
        self._on_short = on_short
        self._busy: Counter[int] = Counter()
        self._rests_until = [0.0] * len(self.backends)
        self._on_error = on_error

    async def draw(self, request: AnswerRequest, n: int) -> Drawn:
        """n candidates. Backends that give fewer are asked again for one at a time, until a round brings nothing more."""
        drawn = await self._try(request, n)
        while (missing := n - len(drawn.draws)) > 0:
            self._on_short(len(drawn.draws), n)
            again = [request.drawn_again(len(drawn.draws) + number) for number in range(missing)]
            results = await asyncio.gather(*(self._try(one, 1) for one in again), return_exceptions=True)
            if wrong := [
                result
                for result in results
                if isinstance(result, BaseException) and not isinstance(result, BackendError)
            ]:
                raise wrong[0]
            more = [result for result in results if isinstance(result, Drawn)]
            if not more:
                break
            drawn = _sum([drawn, *more])
        return drawn

    async def _try(self, request: AnswerRequest, n: int) -> Drawn:
        """At most two tries, on different backends where there are several."""
        tried: set[int] = set()
        for _ in range(MAX_TRIES):
            number = self._choose(tried)
            tried.add(number)
            self._busy[number] += 1
            try:
                return await self.backends[number].draw(request, n)
            except RequestRefusedError:
                raise
            except BackendError as error:
                self._failed(number, error)
                last = error
            finally:
                self._busy[number] -= 1
        raise last

    async def stream(self, request: AnswerRequest) -> AsyncIterator[Piece]:
        """One try: what has been shown cannot be drawn again."""
        number = self._choose(set())
        self._busy[number] += 1
        try:
            async for piece in self.backends[number].stream(request):
                yield piece
        except RequestRefusedError:
            raise
        except BackendError as error:
            self._failed(number, error)
            raise
        finally:
            self._busy[number] -= 1

    def spell(self, ids: Sequence[int]) -> str | None:
        """The text by the first backend that knows it."""
        return next((text for backend in self.backends if (text := backend.spell(ids)) is not None), None)

    async def close(self) -> None:
        """Close all backends."""
        for backend in self.backends:
            await backend.close()

    def _choose(self, tried: set[int]) -> int:
        """Untried before tried, rested before resting, idle before busy."""
        now = time.monotonic()
        return min(
            range(len(self.backends)),
            key=lambda number: (number in tried, self._rests_until[number] > now, self._busy[number], number),
        )

    def _failed(self, number: int, error: BackendError) -> None:
        self._rests_until[number] = time.monotonic() + REST_SECONDS
        self._on_error(self.backends[number].name, str(error))


def _sum(parts: Sequence[Drawn]) -> Drawn:
    return Drawn(
        [draw for part in parts for draw in part.draws],
        sum(part.prompt_tokens for part in parts),
        sum(part.completion_tokens for part in parts),
    )
