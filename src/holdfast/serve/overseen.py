"""One request: draw n, judge all, return the best safe one or refuse. There is no other way to an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from holdfast.judging import Reward, score_replies
from holdfast.oversight import Overseen, Pipeline
from holdfast.records import FinishReason, Reply, Verdict, context
from holdfast.serve.answers import Answer, Choice
from holdfast.serve.backends import BackendError, Draw, Ended, Piece, RequestRefusedError
from holdfast.serve.balance import Balancer
from holdfast.serve.guarded import GuardedJudge
from holdfast.serve.logprobs import spelling, unnamed
from holdfast.serve.metrics import Metrics
from holdfast.serve.protocol import AnswerRequest, ProtocolError
from holdfast.serve.settings import ServerSettings

Hint = Callable[[AnswerRequest], str | None]
"""A fixed text in place of an answer; None: the model is asked."""


def no_hint(_request: AnswerRequest) -> str | None:
    """The default: no request gets a fixed text."""
    return None


@dataclass(frozen=True)
class Overseer:
    """The pipeline, shared by all requests."""

    backends: Balancer
    judge: GuardedJudge
    reward: Reward
    settings: ServerSettings
    metrics: Metrics
    hint: Hint = no_hint

    async def answer(self, request: AnswerRequest) -> Answer:
        """As many choices as were asked for, each the best safe one of ``n`` candidates of its own.

        Raises ProtocolError: 400 where the model's server refused the request, 502 where nothing was drawn, 503 where
        nothing could be judged.
        """
        request = self._spelled(request)
        if request.echo:
            return await self._echo(request)
        if (answer := self.hinted(request)) is not None:
            return answer
        with _naming_backend_faults():
            drawn = await self.backends.draw(request, self.settings.n * request.num_answers)
        groups = [drawn.draws[first :: request.num_answers] for first in range(request.num_answers)]
        replies = [[_reply(request, draw) for draw in group] for group in groups]
        pipeline = Pipeline(self._judged, self._rewarded, self.judge.judges, reward_may_fail=True)
        overseen = await pipeline.choose(replies)
        choices = [self._choice(request, draws, seen) for draws, seen in zip(groups, overseen, strict=True)]
        return Answer(tuple(choices), drawn.prompt_tokens, drawn.completion_tokens)

    async def _judged(self, replies: Sequence[Reply]) -> list[Verdict]:
        """The verdicts on the candidates for one request. Raises where not one of them could be judged."""
        verdicts = await self.judge(replies[0].turns, [reply.text for reply in replies])
        self.metrics.count(verdicts)
        # A reply that says nothing has an outcome, *missed*, and is not safe: it was judged.
        unjudged = all(verdict.safe is None for verdict in verdicts) and any(
            not verdict.outcome for verdict in verdicts
        )
        if self.judge.judges and unjudged:
            raise ProtocolError(
                503, "no candidate could be judged, so none is returned", "judge_unavailable", "api_error"
            )
        return verdicts

    async def _rewarded(self, replies: Sequence[Reply]) -> list[float | None]:
        """The rewards, from a thread and with a deadline: a reward may hang, and the answer must not wait for it."""
        scoring = asyncio.to_thread(score_replies, self.reward, replies)
        return await asyncio.wait_for(scoring, self.settings.backend_seconds)

    def hinted(self, request: AnswerRequest) -> Answer | None:
        """The fixed text for a prompt that the model cannot read. Nothing is generated, so nothing is judged."""
        text = self.hint(request)
        if text is None:
            return None
        account = self._account("refused", "the prompt is not in this model's language", [], [])
        return Answer((Choice(text, "content_filter", False, account),) * request.num_answers)

    async def stream(self, request: AnswerRequest) -> AsyncIterator[Piece]:
        """The pieces of one candidate, from when the first is there: without one it is the same errors as for ``answer``."""
        pieces = self.backends.stream(request)
        with _naming_backend_faults():
            first = await anext(pieces, Ended("stop"))
        return _begun(first, pieces)

    def _choice(self, request: AnswerRequest, draws: Sequence[Draw], seen: Overseen) -> Choice:
        index, reason = seen.selection
        if index is None:
            account = self._account("refused", reason, draws, seen.verdicts)
            return Choice(self.settings.refusal, "content_filter", False, account)
        account = self._account(self.judge.pass_word, reason, draws, seen.verdicts)
        judgement = {"judgement": seen.verdicts[index].reason, "outcome": seen.outcome}
        return self._returned(request, draws[index], {**account, **judgement})

    def _returned(self, request: AnswerRequest, draw: Draw, account: dict[str, Any]) -> Choice:
        """Log-probabilities show no more words than were judged."""
        tokens = None if request.logprobs is None else draw.tokens
        if tokens is not None and not request.echo:
            tokens = spelling(tokens, draw.text)
        if tokens is not None and self.judge.judges:
            tokens = unnamed(tokens)
        return Choice(draw.text, draw.finish_reason, True, account, tokens, draw.tool_calls)

    def _account(self, verdict: str, reason: str, draws: Sequence[Draw], verdicts: Sequence[Verdict]) -> dict[str, Any]:
        return {
            "verdict": verdict,
            "reason": reason,
            "judge": self.judge.name,
            "n": self.settings.n,
            "drawn": len(draws),
            "judged": sum(verdict.safe is not None for verdict in verdicts),
            "safe": sum(verdict.safe is True for verdict in verdicts),
            "outcome": None,
        }

    def _spelled(self, request: AnswerRequest) -> AnswerRequest:
        """The request with the text of a prompt that came as tokens, where anybody here knows it: a judge reads text."""
        if request.prompt is None or isinstance(request.prompt, str):
            return request
        text = self.backends.spell(request.prompt)
        if text is None and self.judge.judges:
            message = "the judge reads text, and the tokens of this model are not known here: send the prompt as text"
            raise ProtocolError(400, message, "unsupported")
        return replace(request, turns=(context("user", text or ""),))

    async def _echo(self, request: AnswerRequest) -> Answer:
        """The prompt itself, for its log-probabilities. Nothing of it is an answer, so there is nothing to judge."""
        if self.judge.judges and request.options["max_tokens"]:
            message = "'echo' on a server with a judge needs 'max_tokens': 0: it returns what nobody has judged"
            raise ProtocolError(400, message, "unsupported")
        with _naming_backend_faults():
            drawn = await self.backends.draw(request, request.num_answers)
        if self.judge.judges and any(draw.text != request.turns[-1].visible for draw in drawn.draws):
            raise ProtocolError(
                502, "the model's server wrote more than the prompt", "backend_unavailable", "api_error"
            )
        account = self._account("unjudged", "echo: the prompt and its log-probabilities", drawn.draws, [])
        choices = [self._returned(request, draw, account) for draw in drawn.draws]
        return Answer(tuple(choices), drawn.prompt_tokens, drawn.completion_tokens)


def _reply(request: AnswerRequest, draw: Draw) -> Reply:
    finish: FinishReason = "length" if draw.finish_reason == "length" else "stop"
    return Reply(request.turns, draw.shown, finish, mean_logp=draw.mean_logp)


async def _begun(first: Piece, rest: AsyncIterator[Piece]) -> AsyncIterator[Piece]:
    yield first
    async for piece in rest:
        yield piece


@contextmanager
def _naming_backend_faults() -> Iterator[None]:
    """Turn a backend's failure, or its refusal of the request, into an error for the client."""
    try:
        yield
    except RequestRefusedError as error:
        message = f"the model's server refused the request ({error}): is it too long, or is an option not known there?"
        raise ProtocolError(400, message, "refused_by_backend") from None
    except BackendError:
        raise ProtocolError(502, "the model did not answer", "backend_unavailable", "api_error") from None
