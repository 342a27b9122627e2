"""One request: draw n, judge all, return the best safe one or refuse. There is no other way to an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from holdfast.oversight.selection import select
from holdfast.records import Verdict
from holdfast.serve.backends import BackendError, Draw, Drawn, Ended, Piece, RequestRefusedError
from holdfast.serve.balance import Balancer
from holdfast.serve.guarded import GuardedJudge
from holdfast.serve.metrics import Metrics
from holdfast.serve.protocol import ChatRequest, ProtocolError
from holdfast.serve.settings import ServerSettings

Reward = Callable[[ChatRequest, Sequence[Draw]], Awaitable[Sequence[float | None]]]


async def no_reward(_request: ChatRequest, draws: Sequence[Draw]) -> Sequence[float | None]:
    """All alike: the first safe candidate is returned."""
    return [0.0] * len(draws)


@dataclass(frozen=True)
class Answer:
    """What the client gets, and what the layer has to say about it."""

    text: str
    finish_reason: str
    returned: bool  # False: a refusal of this layer
    verdict: dict[str, Any]
    usage: dict[str, int]


@dataclass(frozen=True)
class Overseer:
    """The pipeline, shared by all requests."""

    backends: Balancer
    judge: GuardedJudge
    reward: Reward
    settings: ServerSettings
    metrics: Metrics

    async def answer(self, request: ChatRequest) -> Answer:
        """Raises ProtocolError: 400 where the model's server refused the request, 502 where nothing was drawn, 503 where
        nothing could be judged."""
        with _no_answer_told():
            drawn = await self.backends.draw(request, self.settings.n)
        verdicts = await self.judge(request.turns, [draw.text for draw in drawn.draws])
        self.metrics.count(verdicts)
        if all(verdict.safe is None for verdict in verdicts):
            raise ProtocolError(
                503, "no candidate could be judged, so none is returned", "judge_unavailable", "api_error"
            )
        return await self._choose(request, drawn, verdicts)

    async def stream(self, request: ChatRequest) -> AsyncIterator[Piece]:
        """The pieces of one candidate, from when the first is there: without one it is the same errors as for ``answer``."""
        pieces = self.backends.stream(request)
        with _no_answer_told():
            first = await anext(pieces, Ended("stop"))
        return _begun(first, pieces)

    async def _choose(self, request: ChatRequest, drawn: Drawn, verdicts: Sequence[Verdict]) -> Answer:
        draws = drawn.draws
        try:
            rewards = list(await asyncio.wait_for(self.reward(request, draws), self.settings.backend_seconds))
            chosen = select(draws, rewards, verdicts)
        except Exception as error:  # without rewards the first safe one is as good as any: R may fail, S may not
            chosen = select(draws, [0.0] * len(draws), verdicts)
            chosen = chosen._replace(reason=f"{chosen.reason}; the reward failed: {type(error).__name__}")
        told = {
            "verdict": "refused" if chosen.index is None else self.judge.pass_word,
            "reason": chosen.reason,
            "judge": self.judge.name,
            "n": self.settings.n,
            "drawn": len(draws),
            "judged": sum(verdict.safe is not None for verdict in verdicts),
            "safe": sum(verdict.safe is True for verdict in verdicts),
        }
        total = drawn.prompt_tokens + drawn.completion_tokens
        usage = {
            "prompt_tokens": drawn.prompt_tokens,
            "completion_tokens": drawn.completion_tokens,
            "total_tokens": total,
        }
        if chosen.index is None:
            return Answer(self.settings.refusal, "content_filter", False, told, usage)
        draw = draws[chosen.index]
        told["judgement"] = verdicts[chosen.index].reason
        return Answer(draw.text, draw.finish_reason, True, told, usage)


async def _begun(first: Piece, rest: AsyncIterator[Piece]) -> AsyncIterator[Piece]:
    yield first
    async for piece in rest:
        yield piece


@contextmanager
def _no_answer_told() -> Iterator[None]:
    """To the client, whose request may be what is wrong."""
    try:
        yield
    except RequestRefusedError as error:
        message = f"the model's server refused the request ({error}): is it too long for the model?"
        raise ProtocolError(400, message, "refused_by_backend") from None
    except BackendError:
        raise ProtocolError(502, "the model did not answer", "backend_unavailable", "api_error") from None
