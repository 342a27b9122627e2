"""Streams: a judged answer in pieces; and, only where asked for, text at once with its verdict afterwards."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from typing import Any

from holdfast.serve.backends import BackendError, Deletion, Ended, Piece
from holdfast.serve.chat import chat_chunk
from holdfast.serve.overseen import Overseer
from holdfast.serve.protocol import AnswerRequest, event

WARNING = "text in this stream is shown before it is judged and may be taken back"


async def judged_stream(chunks: Iterable[dict[str, Any]], usage: dict[str, int] | None) -> AsyncIterator[bytes]:
    """The whole answer was judged before the first byte is sent."""
    for chunk in chunks:
        yield event(chunk)
    if usage is not None:
        yield event({**chunk, "choices": [], "usage": usage})
    yield event("[DONE]")


async def retracting_stream(
    request_id: str, model: str, request: AnswerRequest, pieces: AsyncIterator[Piece], overseer: Overseer
) -> AsyncIterator[bytes]:
    """Outside the fail-closed promise, and every piece says so. Undo events tell how many characters vanish."""
    mark = {"judged": False, "warning": WARNING}
    shown, ending = "", "stop"

    def piece(delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> bytes:
        return event(chat_chunk(request_id, model, delta, finish_reason, holdfast={**mark, **more}))

    yield piece({"role": "assistant", "content": ""})
    broken, deadline = False, time.monotonic() + overseer.settings.request_seconds
    try:
        async for part in pieces:
            if time.monotonic() > deadline:
                raise BackendError("took too long")
            if isinstance(part, Deletion):
                shown = shown[: -part.num_chars] if part.num_chars else shown
                yield piece({}, event="undo", num_chars=part.num_chars)
            elif isinstance(part, Ended):
                ending = part.finish_reason
            elif part:
                shown += part
                yield piece({"content": part})
    except BackendError:
        broken = True
    (verdict,) = await overseer.judge(request.turns, [shown])
    overseer.metrics.count([verdict])
    if overseer.judge.passes(verdict) and not broken:
        passed = {"verdict": overseer.judge.pass_word, "reason": verdict.reason, "outcome": verdict.outcome}
        yield piece({}, ending, **passed, judge=verdict.judge)
    else:
        yield piece({}, event="undo", num_chars=len(shown))
        yield piece({"content": overseer.settings.refusal})
        reason = "the model broke off" if broken else verdict.reason
        yield piece({}, "content_filter", verdict="refused", reason=reason, judge=verdict.judge)
    yield event("[DONE]")
