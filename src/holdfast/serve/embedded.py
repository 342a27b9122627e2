"""A model in this process as a backend: what makes the server run on a laptop. One request at a time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.config import InputError
from holdfast.generation import Delete, Insert, UndoDecoding, stream_with_undo
from holdfast.generation.conversations import completion, ids_to_continue, stop_ids
from holdfast.generation.sample import continue_ids
from holdfast.models import LoadedModel
from holdfast.models.positions import num_positions
from holdfast.records import Completion, context
from holdfast.serve.backends import BackendError, Deletion, Draw, Drawn, Ended, Piece
from holdfast.serve.logprobs import Tokens, mean_logp
from holdfast.serve.protocol import AnswerRequest, ProtocolError
from holdfast.serve.scoring import score
from holdfast.tokens import apply_undo, find_undo_id

NOT_HERE = ("presence_penalty", "frequency_penalty")
ONE_AT_A_TIME = threading.Lock()  # torch draws from one generator per process: two models at once would mix their seeds


class GivenUpError(Exception):
    """Nobody waits for this answer any more."""


@contextlib.contextmanager
def while_wanted(loaded: LoadedModel, gone: threading.Event) -> Iterator[None]:
    """Has the model for itself, and stops it before its next token once ``gone`` is set, so that it is free for who waits."""

    def check(*_: object) -> None:
        if gone.is_set():
            raise GivenUpError

    hook = loaded.model.get_input_embeddings().register_forward_pre_hook(check)
    try:
        with ONE_AT_A_TIME:
            yield
    finally:
        hook.remove()


@dataclass
class EmbeddedBackend:
    """Draws are answered from one thread, so that requests wait their turn instead of fighting for the cores."""

    loaded: LoadedModel
    pair_logps: Callable[[list[tuple[Any, str]]], list[float]] | None = None  # for a reward that needs likelihoods
    _seeds: Any = field(default_factory=itertools.count, repr=False)
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "model"), repr=False)

    @property
    def name(self) -> str:
        """The name under which the model was loaded."""
        return self.loaded.name

    async def draw(self, request: AnswerRequest, n: int) -> Drawn:
        """Draw all n in one batch; a seed in the request makes them repeatable."""
        _refuse_what_is_not_here(request)
        gone = threading.Event()

        def work() -> Drawn:
            with while_wanted(self.loaded, gone):
                return self._draw(request, n)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except InputError as error:
            raise _wrong(error) from None
        except Exception as error:  # whatever a model may raise: there is no candidate
            raise BackendError(f"{type(error).__name__}: {error}"[:200]) from error
        finally:
            gone.set()  # also when this is cancelled, which the thread would not notice

    def _draw(self, request: AnswerRequest, n: int) -> Drawn:
        prompt = self._prompt_ids(request)
        draws = [self._finished(request, prompt, row) for row in self._write(request, prompt, n)]
        if self.pair_logps and request.prompt is None:
            logps = self.pair_logps([(request.turns, draw.text) for draw, _ in draws])
            draws = [(replace(draw, mean_logp=logp), num) for (draw, num), logp in zip(draws, logps, strict=True)]
        return Drawn([draw for draw, _ in draws], len(prompt), sum(num for _, num in draws))

    def _prompt_ids(self, request: AnswerRequest) -> list[int]:
        if request.prompt is None:
            return ids_to_continue(request.turns, self.loaded.tokenizer)
        if isinstance(request.prompt, str):
            return ids_to_continue((context("text", request.prompt),), self.loaded.tokenizer)
        return list(request.prompt)

    def _write(self, request: AnswerRequest, prompt: list[int], n: int) -> list[list[int]]:
        """The new ids of n candidates; none are asked for where only the prompt is to be scored."""
        if not request.options["max_tokens"]:
            if len(prompt) > (room := num_positions(self.loaded.model.config)):
                raise InputError(f"the prompt has {len(prompt)} tokens, but this model reads {room}")
            return [[]] * n
        stops = request.options.get("stop", [])
        return continue_ids(
            self.loaded.model,
            self.loaded.tokenizer,
            [prompt] * n,
            **self._sampling(request),
            batch_size=n,
            stop_when=(lambda ids: _stop_in(self._text(ids), stops) is not None) if stops else None,
        )

    def _finished(self, request: AnswerRequest, prompt: list[int], row: list[int]) -> tuple[Draw, int]:
        """The candidate, and how many tokens were written for it."""
        tokenizer = self.loaded.tokenizer
        written = completion(request.turns, row, stop_ids(self.loaded.model, tokenizer), tokenizer)
        written = self._cut(written, request.options.get("stop", []))
        num = len(written.token_ids)
        rewarded = self.pair_logps is not None and request.prompt is not None  # for a chat ``pair_logps`` gives it
        if request.logprobs is None and not request.echo and not rewarded:
            return Draw(written.text, written.finish_reason), num
        ids = [*prompt, *written.token_ids]
        start = 0 if request.echo else len(prompt)
        tokens = score(self.loaded, ids, start=start, num_top=request.logprobs or 0)
        if request.echo:
            new = "".join(token.text for token in tokens[len(prompt) :])
            return Draw(request.turns[-1].visible + new, written.finish_reason, tokens=tokens), num
        mean = (mean_logp(tokens) if tokens else -math.inf) if rewarded else None
        return Draw(written.text, written.finish_reason, mean, self._left(tokens, written.token_ids)), num

    def _left(self, tokens: Tokens, ids: Sequence[int]) -> Tokens:
        """The tokens that no undo has taken back."""
        undo = find_undo_id(self.loaded.tokenizer)
        indices = [-1 if token == undo else index for index, token in enumerate(ids)]
        return tuple(tokens[index] for index in apply_undo(indices, -1))

    def _text(self, ids: list[int]) -> str:
        undo = find_undo_id(self.loaded.tokenizer)
        visible = ids if undo is None else apply_undo(ids, undo)
        return str(self.loaded.tokenizer.decode(visible, skip_special_tokens=True))

    def _cut(self, written: Completion, stops: list[str]) -> Completion:
        """What was written before the first stop text, with the tokens up to the one that completed it."""
        end = _stop_in(written.text, stops)
        if end is None:
            return written
        ids = written.token_ids
        num = next(num for num in range(1, len(ids) + 1) if _stop_in(self._text(list(ids[:num])), stops) is not None)
        return replace(written, text=written.text[:end], token_ids=ids[:num], finish_reason="stop")

    async def stream(self, request: AnswerRequest) -> AsyncIterator[Piece]:
        """Word by word; a model that knows <UNDO> takes back before the reader's eyes."""
        _refuse_what_is_not_here(request)
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[Piece | BackendError | ProtocolError | None] = asyncio.Queue()
        gone = threading.Event()

        def pump() -> None:
            try:
                with while_wanted(self.loaded, gone):
                    for piece in self._pieces(request):
                        loop.call_soon_threadsafe(pieces.put_nowait, piece)
                loop.call_soon_threadsafe(pieces.put_nowait, None)
            except GivenUpError:
                return
            except InputError as error:
                loop.call_soon_threadsafe(pieces.put_nowait, _wrong(error))
            except Exception as error:
                loop.call_soon_threadsafe(pieces.put_nowait, BackendError(f"{type(error).__name__}: {error}"[:200]))

        self._thread.submit(pump)
        try:
            while (piece := await pieces.get()) is not None:
                if isinstance(piece, BackendError | ProtocolError):
                    raise piece
                yield piece
        finally:
            gone.set()

    def _pieces(self, request: AnswerRequest) -> Iterator[Piece]:
        tokenizer = self.loaded.tokenizer
        if find_undo_id(tokenizer) is None:
            (draw,) = self._draw(request, 1).draws
            yield draw.text
            yield Ended(draw.finish_reason)
            return
        how = UndoDecoding(**self._sampling(request))
        shown, stops = "", request.options.get("stop", [])
        for change in stream_with_undo(self.loaded.model, tokenizer, [request.turns], how):
            if isinstance(change, Insert):
                end = _stop_in(shown + change.text, stops)
                if end is not None:  # it may have begun in what was shown before
                    yield change.text[: end - len(shown)] if end >= len(shown) else Deletion(len(shown) - end)
                    yield Ended("stop")
                    return
                shown += change.text
                yield change.text
            elif isinstance(change, Delete):
                shown = shown[: len(shown) - change.num_chars]
                yield Deletion(change.num_chars)
            else:
                yield Ended(change.completion.finish_reason)

    def _sampling(self, request: AnswerRequest) -> dict[str, Any]:
        options = request.options
        return {
            "max_new_tokens": options["max_tokens"],
            "temperature": float(options["temperature"]),
            "top_p": float(options.get("top_p", 1.0)),
            "seed": int(options.get("seed", next(self._seeds))),
        }

    def spell(self, ids: Sequence[int]) -> str | None:
        """Special tokens included: the judge reads all that the model reads."""
        if not all(0 <= token < len(self.loaded.tokenizer) for token in ids):
            raise ProtocolError(
                400, f"'prompt': this model has tokens 0 to {len(self.loaded.tokenizer) - 1}", "bad_value"
            )
        return str(self.loaded.tokenizer.decode(list(ids), skip_special_tokens=False))

    async def close(self) -> None:
        """End the thread after its current draw. Draws that wait are given up."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _wrong(error: InputError) -> ProtocolError:
    """An ``InputError`` as an error for the client, such as a conversation that is too long for the model."""
    return ProtocolError(400, str(error), "bad_value")


def _refuse_what_is_not_here(request: AnswerRequest) -> None:
    """Refuse what this backend would have to ignore. Tools that must not be called change nothing."""
    names = [name for name in NOT_HERE if request.options.get(name)]
    if request.tools and request.tools.get("tool_choice") != "none":
        names.append("tools")
    if any(message["role"] == "tool" or "tool_calls" in message for message in request.messages):
        names.append("tool_calls")
    if names:
        raise ProtocolError(400, f"'{names[0]}' is not supported by a model in this process", "unsupported")


def _stop_in(text: str, stops: Sequence[str]) -> int | None:
    """Where the first of the stop texts begins."""
    return min((text.index(stop) for stop in stops if stop in text), default=None)
