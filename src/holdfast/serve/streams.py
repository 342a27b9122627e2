"""Streams: a judged answer in pieces; and, only where asked for, text at once with its verdict afterwards."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from holdfast.serve.backends import BackendError, Deletion, Ended, Piece
from holdfast.serve.overseen import Answer, Overseer
from holdfast.serve.protocol import ChatRequest, chunk_body, event

PIECE = 48  # characters
WARNING = "text in this stream is shown before it is judged and may be taken back"


async def judged_stream(request_id: str, model: str, request: ChatRequest, answer: Answer) -> AsyncIterator[bytes]:
    """The whole answer was judged before the first byte is sent."""
    yield event(chunk_body(request_id, model, {"role": "assistant", "content": ""}, holdfast=answer.verdict))
    for start in range(0, len(answer.text), PIECE):
        yield event(chunk_body(request_id, model, {"content": answer.text[start : start + PIECE]}))
    yield event(chunk_body(request_id, model, {}, answer.finish_reason))
    if request.include_usage:
        yield event({**chunk_body(request_id, model, {}), "choices": [], "usage": answer.usage})
    yield event("[DONE]")


async def retracting_stream(
    request_id: str, model: str, request: ChatRequest, pieces: AsyncIterator[Piece], overseer: Overseer
) -> AsyncIterator[bytes]:
    """Outside the fail-closed promise, and every piece says so. Undo events tell how many characters vanish."""
    mark = {"judged": False, "warning": WARNING}
    shown, ending = "", "stop"

    def piece(delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> bytes:
        return event(chunk_body(request_id, model, delta, finish_reason, holdfast={**mark, **more}))

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
    if verdict.safe is True and not broken:
        yield piece({}, ending, verdict=overseer.judge.pass_word, reason=verdict.reason, judge=verdict.judge)
    else:
        yield piece({}, event="undo", num_chars=len(shown))
        yield piece({"content": overseer.settings.refusal})
        reason = "the model broke off" if broken else verdict.reason
        yield piece({}, "content_filter", verdict="refused", reason=reason, judge=verdict.judge)
    yield event("[DONE]")
