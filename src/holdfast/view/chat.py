"""Try it: one answer of one model, plain, with undo, or overseen, as events while it is made."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from pydantic import Field

from holdfast.config import InputError
from holdfast.config.base import Settings
from holdfast.config.loading import validated
from holdfast.view.models import Models
from holdfast.view.watch import event

if TYPE_CHECKING:
    from holdfast.models import LoadedModel
    from holdfast.records import Turn

SettingsType = TypeVar("SettingsType", bound=Settings)
JudgeName = Literal["world", "outcome", "refusal_phrases", "code_policy", "none"]
RewardName = Literal["likelihood", "none"]
JUDGES: tuple[JudgeName, ...] = get_args(JudgeName)
REWARDS: tuple[RewardName, ...] = get_args(RewardName)


class Message(Settings):
    """One turn of the conversation so far."""

    role: Literal["system", "user", "assistant"]
    content: str


class Ask(Settings):
    """What the page asks for. ``prefill``: words that the answer begins with; with undo they can be taken back."""

    model: str
    messages: tuple[Message, ...] = Field(min_length=1)
    mode: Literal["plain", "undo", "overseen"] = "plain"
    prefill: str = ""
    seed: int = Field(default=0, ge=0, lt=1 << 31)
    temperature: float = Field(default=0.0, ge=0, le=5)
    max_new_tokens: int = Field(default=128, gt=0, le=2048)
    n: int = Field(default=4, gt=0, le=32)
    judge: JudgeName = "outcome"
    reward: RewardName = "likelihood"


def read_json(kind: type[SettingsType], data: bytes) -> SettingsType:
    """What a page has sent, as the settings of that kind. Raises ``InputError`` for anything else."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError("expected JSON") from None
    if not isinstance(content, dict):
        raise InputError("expected a JSON object")
    return validated(kind, content, "view")


async def answer_events(ask: Ask, models: Models) -> AsyncIterator[bytes]:
    """Server-sent events; the model works in a thread and stops before its next token when the page has gone."""
    loop, gone = asyncio.get_running_loop(), threading.Event()
    events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    def tell(what: dict[str, Any] | None) -> None:
        loop.call_soon_threadsafe(events.put_nowait, what)

    def work() -> None:
        try:
            from holdfast.serve.embedded import while_wanted  # brings torch: a second or more, in this thread

            loaded = models.load(ask.model)
            with while_wanted(loaded, gone):
                for what in _answered(ask, loaded):
                    tell(what)
        except InputError as error:
            tell({"event": "error", "text": str(error)})
        except Exception as error:  # whatever a model may raise: the page says so, if it is still there
            tell({"event": "error", "text": f"{type(error).__name__}: {error}"[:300]})
        tell(None)

    threading.Thread(target=work, daemon=True).start()
    try:
        while (what := await events.get()) is not None:
            yield event(what)
    finally:
        gone.set()


def _answered(ask: Ask, loaded: LoadedModel) -> Iterator[dict[str, Any]]:
    from holdfast.records import context

    turns = tuple(context(message.role, message.content) for message in ask.messages)
    if ask.mode == "undo":
        return _with_undo(ask, loaded, turns)
    begun = (*turns, context("assistant", ask.prefill)) if ask.prefill else turns
    return _overseen(ask, loaded, begun) if ask.mode == "overseen" else _plain(ask, loaded, begun)


def _plain(ask: Ask, loaded: LoadedModel, turns: tuple[Turn, ...]) -> Iterator[dict[str, Any]]:
    from holdfast.generation import generate_answers

    (written,) = generate_answers(loaded, [turns], **_sampling(ask))
    text = _whole(ask, loaded, written.text)
    yield {"event": "insert", "text": text}
    yield {"event": "finished", "text": text, "num_undos": 0, "ended": written.finish_reason}


def _with_undo(ask: Ask, loaded: LoadedModel, turns: tuple[Turn, ...]) -> Iterator[dict[str, Any]]:
    from holdfast.generation import Delete, Insert, UndoDecoding, begun_with, stream_with_undo

    how = UndoDecoding(ask.max_new_tokens, temperature=ask.temperature, seed=ask.seed)
    begun = begun_with(loaded, ask.prefill or None, 1)
    for change in stream_with_undo(loaded.model, loaded.tokenizer, [turns], how, begun=begun):
        if isinstance(change, Insert):
            yield {"event": "insert", "text": change.text}
        elif isinstance(change, Delete):
            yield {"event": "delete", "num_chars": change.num_chars}
        else:
            done = change.completion
            ending = {"num_undos": done.num_undos, "ended": done.finish_reason}
            yield {"event": "finished", "text": done.text, **ending}


def _overseen(ask: Ask, loaded: LoadedModel, turns: tuple[Turn, ...]) -> Iterator[dict[str, Any]]:
    from holdfast.oversight import best_of

    judge = None if ask.judge == "none" else ask.judge
    reward = None if ask.reward == "none" else ask.reward
    (answer,) = best_of(loaded, [turns], n=ask.n, judge=judge, reward=reward, **_sampling(ask))
    candidates = [
        {
            "text": _whole(ask, loaded, candidate.text),
            "safe": verdict.safe,
            "outcome": verdict.outcome,
            "reason": verdict.reason,
            "judge": verdict.judge,
            "reward": value,
        }
        for candidate, verdict, value in zip(answer.candidates, answer.verdicts, answer.rewards, strict=True)
    ]
    chosen = {"index": answer.selection.index, "why": answer.selection.reason}
    yield {"event": "candidates", "candidates": candidates, **chosen}
    text = None if answer.text is None else _whole(ask, loaded, answer.text)
    yield {"event": "finished", "text": text, "num_undos": 0, "ended": "abstained" if text is None else "chosen"}


def _whole(ask: Ask, loaded: LoadedModel, written: str) -> str:
    """The answer, with the words that it was given to begin with."""
    from holdfast.tokens.encoding import Encoder

    return Encoder(loaded.tokenizer).joined(ask.prefill, written)


def _sampling(ask: Ask) -> dict[str, Any]:
    return {"max_new_tokens": ask.max_new_tokens, "temperature": ask.temperature, "seed": ask.seed}
