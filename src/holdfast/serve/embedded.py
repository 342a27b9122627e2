"""A model in this process as a backend: what makes the server run on a laptop. One request at a time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from holdfast.config import InputError
from holdfast.generation import Delete, Insert, UndoDecoding, generate, stream_with_undo
from holdfast.models import LoadedModel
from holdfast.serve.backends import BackendError, Deletion, Draw, Drawn, Ended, Piece
from holdfast.serve.protocol import ChatRequest, ProtocolError
from holdfast.tokens import find_undo_id, prompt_ids

NOT_HERE = ("stop", "presence_penalty", "frequency_penalty")
ONE_AT_A_TIME = threading.Lock()  # torch draws from one generator per process: two models at once would mix their seeds


class _GivenUpError(Exception):
    """Nobody waits for this answer any more."""


@dataclass
class EmbeddedBackend:
    """Draws are answered from one thread, so that requests wait their turn instead of fighting for the cores."""

    loaded: LoadedModel
    mean_logps: Callable[[Any, list[str]], list[float]] | None = None  # a reward that needs likelihoods
    _seeds: Any = field(default_factory=itertools.count, repr=False)
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "model"), repr=False)

    @property
    def name(self) -> str:
        """As it was loaded."""
        return self.loaded.name

    async def draw(self, request: ChatRequest, n: int) -> Drawn:
        """All n in one batch; a seed in the request makes them repeatable."""
        _refuse_what_is_not_here(request)
        gone = threading.Event()

        def work() -> Drawn:
            with self._while_wanted(gone):
                return self._draw(request, n)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except InputError as error:
            raise _wrong(error) from None
        except Exception as error:  # whatever a model may raise: there is no candidate
            raise BackendError(f"{type(error).__name__}: {error}"[:200]) from error
        finally:
            gone.set()  # also when this is cancelled, which the thread would not notice

    @contextlib.contextmanager
    def _while_wanted(self, gone: threading.Event) -> Iterator[None]:
        """Stops the model before its next token once nobody waits, so that the thread is free for who does."""

        def check(*_: object) -> None:
            if gone.is_set():
                raise _GivenUpError

        hook = self.loaded.model.get_input_embeddings().register_forward_pre_hook(check)
        try:
            with ONE_AT_A_TIME:
                yield
        finally:
            hook.remove()

    def _draw(self, request: ChatRequest, n: int) -> Drawn:
        completions = generate(
            self.loaded.model,
            self.loaded.tokenizer,
            [request.turns] * n,
            max_new_tokens=request.options["max_tokens"],
            temperature=float(request.options["temperature"]),
            top_p=float(request.options.get("top_p", 1.0)),
            seed=self._seed(request),
            batch_size=n,
        )
        texts = [completion.text for completion in completions]
        logps = self.mean_logps(request.turns, texts) if self.mean_logps else [None] * n
        draws = [Draw(c.text, c.finish_reason, logp) for c, logp in zip(completions, logps, strict=True)]
        prompt_tokens = len(prompt_ids(request.turns, self.loaded.tokenizer))
        return Drawn(draws, prompt_tokens, sum(len(completion.token_ids) for completion in completions))

    async def stream(self, request: ChatRequest) -> AsyncIterator[Piece]:
        """Word by word; a model that knows <UNDO> takes back before the reader's eyes."""
        _refuse_what_is_not_here(request)
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[Piece | BackendError | ProtocolError | None] = asyncio.Queue()
        gone = threading.Event()

        def pump() -> None:
            try:
                with self._while_wanted(gone):
                    for piece in self._pieces(request):
                        loop.call_soon_threadsafe(pieces.put_nowait, piece)
                loop.call_soon_threadsafe(pieces.put_nowait, None)
            except _GivenUpError:
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

    def _pieces(self, request: ChatRequest) -> Iterator[Piece]:
        tokenizer = self.loaded.tokenizer
        if find_undo_id(tokenizer) is None:
            (draw,) = self._draw(request, 1).draws
            yield draw.text
            yield Ended(draw.finish_reason)
            return
        how = UndoDecoding(
            max_new_tokens=request.options["max_tokens"],
            temperature=float(request.options["temperature"]),
            top_p=float(request.options.get("top_p", 1.0)),
            seed=self._seed(request),
        )
        for change in stream_with_undo(self.loaded.model, tokenizer, [request.turns], how):
            if isinstance(change, Insert):
                yield change.text
            elif isinstance(change, Delete):
                yield Deletion(change.num_chars)
            else:
                yield Ended(change.completion.finish_reason)

    def _seed(self, request: ChatRequest) -> int:
        return int(request.options.get("seed", next(self._seeds)))

    async def close(self) -> None:
        """After what it has accepted."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _wrong(error: InputError) -> ProtocolError:
    """Such as a conversation that is too long for the model."""
    return ProtocolError(400, str(error), "bad_value")


def _refuse_what_is_not_here(request: ChatRequest) -> None:
    """It would have to be ignored."""
    for name in NOT_HERE:
        if request.options.get(name):
            raise ProtocolError(400, f"'{name}' is not supported by a model in this process", "unsupported")
