"""A model in the server's own process: what nobody waits for stops, and streams heed what was asked."""

import asyncio
import contextlib
import json
import threading

import pytest

from holdfast.models import add_tokens, load
from holdfast.serve import ChatRequest, ServerSettings
from holdfast.serve.backends import Drawn, Ended
from holdfast.serve.embedded import EmbeddedBackend
from holdfast.serve.protocol import ProtocolError, read_request
from waiting import PATIENCE


def asked(**more: object) -> ChatRequest:
    body = {"messages": [{"role": "user", "content": "copy : sun river stone"}], "max_tokens": 12, **more}
    return read_request(json.dumps(body).encode(), ServerSettings())


async def streamed(backend: EmbeddedBackend, request: ChatRequest) -> list[object]:
    return [piece async for piece in backend.stream(request)]


@pytest.fixture
def undoing() -> EmbeddedBackend:
    loaded = load("tiny:aligned")
    add_tokens(loaded.model, loaded.tokenizer)
    return EmbeddedBackend(loaded)


@pytest.mark.parametrize("way", ["draw", "stream"])
def test_what_nobody_waits_for_stops_before_the_next_token(way: str) -> None:
    """The first forward pass is held up until the request is cancelled; no second one follows, and the thread is free."""
    backend = EmbeddedBackend(load("tiny:aligned"))
    begun, go_on = threading.Event(), threading.Event()
    num_passes = 0

    def hold_up(*_: object) -> None:
        nonlocal num_passes
        num_passes += 1
        begun.set()
        go_on.wait(PATIENCE)

    hook = backend.loaded.model.register_forward_hook(hold_up)

    async def scenario() -> None:
        work = asyncio.create_task(backend.draw(asked(), 2) if way == "draw" else streamed(backend, asked()))
        await asyncio.to_thread(begun.wait, PATIENCE)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        go_on.set()
        await asyncio.get_running_loop().run_in_executor(backend._thread, hook.remove)
        assert num_passes == 1
        assert (await backend.draw(asked(), 2)).draws[0].text == "sun river stone"

    asyncio.run(scenario())


@pytest.mark.parametrize(("max_tokens", "reason"), [(2, "length"), (12, "stop")])
@pytest.mark.parametrize("undo", [True, False])
def test_a_stream_says_whether_it_was_cut_off(
    undo: bool, max_tokens: int, reason: str, undoing: EmbeddedBackend
) -> None:
    backend = undoing if undo else EmbeddedBackend(load("tiny:aligned"))
    *pieces, end = asyncio.run(streamed(backend, asked(max_tokens=max_tokens, temperature=0)))
    assert end == Ended(reason)
    assert "".join(map(str, pieces)) == ("sun river stone" if reason == "stop" else "sun river")


def test_two_models_at_once_do_not_mix_their_seeds() -> None:
    """torch has one generator per process."""
    one, other = (EmbeddedBackend(load("tiny:aligned")) for _ in range(2))
    requests = [asked(temperature=2.0, seed=seed) for seed in range(12)]

    async def drawn(*backends: EmbeddedBackend) -> list[Drawn]:
        draws = [backends[place % len(backends)].draw(request, 2) for place, request in enumerate(requests)]
        return await asyncio.gather(*draws)

    assert asyncio.run(drawn(one, other)) == asyncio.run(drawn(one))


def test_a_stream_heeds_seed_and_top_p_and_refuses_what_it_cannot(undoing: EmbeddedBackend) -> None:
    def text(**options: object) -> list[object]:
        return asyncio.run(streamed(undoing, asked(temperature=2.0, **options)))

    assert text(seed=1) == text(seed=1)
    assert len({str(text(seed=seed)) for seed in range(4)}) > 1
    assert {str(text(seed=seed, top_p=1e-6)) for seed in range(4)} == {
        str(asyncio.run(streamed(undoing, asked(temperature=0))))
    }
    with pytest.raises(ProtocolError, match="'stop' is not supported"):
        text(stop=["river"])
    with pytest.raises(ProtocolError, match="this model reads 512"):
        text(messages=[{"role": "user", "content": "sun " * 600}])
