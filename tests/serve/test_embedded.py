"""A model in the server's own process: what nobody waits for stops, and streams heed what was asked."""

import asyncio
import contextlib
import json
import threading
from dataclasses import replace
from functools import partial

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from holdfast.generation.conversations import ids_to_continue
from holdfast.generation.sample import continue_ids
from holdfast.judging import pair_logps
from holdfast.models import add_tokens, load
from holdfast.records import context
from holdfast.serve import AnswerRequest, ServerSettings
from holdfast.serve.backends import Deletion, Drawn, Ended
from holdfast.serve.chat import read_chat
from holdfast.serve.completions import read_completions
from holdfast.serve.embedded import EmbeddedBackend
from holdfast.serve.protocol import ProtocolError
from holdfast.serve.scoring import read
from holdfast.tokens import find_undo_id, prompt_ids
from waiting import PATIENCE, run_async

WHOLE = "sun river stone"


def asked(**more: object) -> AnswerRequest:
    body = {"messages": [{"role": "user", "content": "copy : sun river stone"}], "max_tokens": 12, **more}
    return read_chat(json.dumps(body).encode(), ServerSettings())


async def streamed(backend: EmbeddedBackend, request: AnswerRequest) -> list[object]:
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

    run_async(scenario())


def test_the_likelihood_of_a_text_gone_on_with_is_that_after_the_text_itself() -> None:
    """Not after a chat turn of these words: the reward would rank by a prompt that the model never read."""
    loaded = load("tiny:aligned")
    backend = EmbeddedBackend(loaded, partial(pair_logps, loaded))
    body = json.dumps({"prompt": "sun river", "max_tokens": 4, "temperature": 1.0, "seed": 5}).encode()
    (request,) = read_completions(body, ServerSettings())
    draws = run_async(backend.draw(request, 3)).draws
    prompt = ids_to_continue((context("text", "sun river"),), loaded.tokenizer)
    rows = continue_ids(loaded.model, loaded.tokenizer, [prompt] * 3, max_new_tokens=4, temperature=1.0, seed=5)
    for draw, row in zip(draws, rows, strict=True):
        new = row[:-1] if row[-1] == loaded.tokenizer.eos_token_id else row
        with torch.no_grad():
            logps = loaded.model(torch.tensor([[*prompt, *new]])).logits[0].log_softmax(-1)
        own = [float(logps[len(prompt) + place - 1, token]) for place, token in enumerate(new)]
        assert draw.mean_logp == pytest.approx(sum(own) / len(own), abs=1e-4)


@pytest.mark.parametrize(("max_tokens", "reason"), [(2, "length"), (12, "stop")])
@pytest.mark.parametrize("undo", [True, False])
def test_a_stream_says_whether_it_was_cut_off(
    undo: bool, max_tokens: int, reason: str, undoing: EmbeddedBackend
) -> None:
    backend = undoing if undo else EmbeddedBackend(load("tiny:aligned"))
    *pieces, end = run_async(streamed(backend, asked(max_tokens=max_tokens, temperature=0)))
    assert end == Ended(reason)
    assert "".join(map(str, pieces)) == ("sun river stone" if reason == "stop" else "sun river")


def test_two_models_at_once_do_not_mix_their_seeds() -> None:
    """torch has one generator per process."""
    one, other = (EmbeddedBackend(load("tiny:aligned")) for _ in range(2))
    requests = [asked(temperature=2.0, seed=seed) for seed in range(12)]

    async def drawn(*backends: EmbeddedBackend) -> list[Drawn]:
        draws = [backends[place % len(backends)].draw(request, 2) for place, request in enumerate(requests)]
        return await asyncio.gather(*draws)

    assert run_async(drawn(one, other)) == run_async(drawn(one))


def test_a_stream_heeds_seed_and_top_p_and_refuses_what_it_cannot(undoing: EmbeddedBackend) -> None:
    def text(**options: object) -> list[object]:
        return run_async(streamed(undoing, asked(temperature=2.0, **options)))

    assert text(seed=1) == text(seed=1)
    assert len({str(text(seed=seed)) for seed in range(4)}) > 1
    assert {str(text(seed=seed, top_p=1e-6)) for seed in range(4)} == {
        str(run_async(streamed(undoing, asked(temperature=0))))
    }
    with pytest.raises(ProtocolError, match="'presence_penalty' is not supported"):
        text(presence_penalty=1)
    with pytest.raises(ProtocolError, match="this model reads 512"):
        text(messages=[{"role": "user", "content": "sun " * 600}])


def continued(prompt: object, **more: object) -> AnswerRequest:
    """A request of /v1/completions; tokens are spelled as the server does it."""
    body = {"prompt": prompt, "max_tokens": 12, "temperature": 0, **more}
    (request,) = read_completions(json.dumps(body).encode(), ServerSettings())
    return request if request.turns else replace(request, turns=(context("user", "tokens"),))


@pytest.mark.parametrize(
    ("stop", "text", "num_passes"), [("river", "sun ", 2), (["stone", "r s"], "sun rive", 3), (["bell"], WHOLE, 4)]
)
def test_an_answer_ends_before_the_first_stop_and_no_more_tokens_are_written(
    stop: object, text: str, num_passes: int
) -> None:
    """One forward pass per token: sun, river, stone and the end."""
    backend = EmbeddedBackend(load("tiny:aligned"))
    passes: list[int] = []
    backend.loaded.model.register_forward_hook(lambda *_: passes.append(1))
    drawn = run_async(backend.draw(asked(stop=stop, temperature=0), 2))
    assert [(draw.text, draw.finish_reason) for draw in drawn.draws] == [(text, "stop")] * 2
    assert len(passes) == num_passes
    assert drawn.completion_tokens == 2 * min(num_passes, 3)


def test_a_retracting_stream_takes_back_a_stop_that_it_began_to_show(undoing: EmbeddedBackend) -> None:
    *pieces, end = run_async(streamed(undoing, asked(temperature=0, stop=["n river"])))
    assert (pieces, end) == (["sun", Deletion(1)], Ended("stop"))
    *pieces, end = run_async(streamed(undoing, asked(temperature=0, stop=["ver"])))
    assert (pieces, end) == (["sun", " ri"], Ended("stop"))


def test_log_probabilities_are_those_of_the_model() -> None:
    """Against one forward pass in float64 over prompt and answer; the sum is what the likelihood reward says, but the end."""
    backend = EmbeddedBackend(load("tiny:aligned"))
    (draw,) = run_async(backend.draw(asked(logprobs=True, top_logprobs=3, temperature=0), 1)).draws
    assert draw.tokens is not None
    assert [token.text for token in draw.tokens] == ["sun", " river", " stone"]
    tokenizer = backend.loaded.tokenizer
    prompt = prompt_ids(asked().turns, tokenizer)
    ids = torch.tensor([[*prompt, *tokenizer(WHOLE)["input_ids"]]])
    logps = backend.loaded.model.double()(input_ids=ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    for token, expected, id_ in zip(draw.tokens, logps, ids[0, len(prompt) :], strict=True):
        assert token.logp == pytest.approx(float(expected[id_].detach()), abs=1e-5)
        assert [logp for _, logp in token.top] == pytest.approx(expected.topk(3).values.tolist(), abs=1e-5)
        assert token.top[0][0] == token.text  # greedy


def test_log_probabilities_of_what_an_undo_took_back_are_not_shown(undoing: EmbeddedBackend) -> None:
    undo = find_undo_id(undoing.loaded.tokenizer)
    assert undo is not None
    words = undoing.loaded.tokenizer("bell sun river")["input_ids"]
    request = asked(logprobs=True)
    prompt = undoing._prompt_ids(request)
    draw, num = undoing._finished(request, prompt, [words[0], undo, *words[1:]])
    assert (draw.text, num) == ("sun river", 4)
    assert [token.text.strip() for token in draw.tokens or ()] == ["sun", "river"]


def test_a_prompt_is_scored_as_text_and_as_tokens() -> None:
    """The first token has nothing before it. With max_tokens 0 nothing is written."""
    backend = EmbeddedBackend(load("tiny:aligned"))
    text = "copy : sun river"
    for prompt in (text, backend.loaded.tokenizer(text)["input_ids"]):
        request = continued(prompt, echo=True, logprobs=1, max_tokens=0)
        ((draw,), num_read, num_written) = run_async(backend.draw(request, 1))
        assert draw.tokens is not None
        assert "".join(token.text for token in draw.tokens) == text
        assert [token.logp is None for token in draw.tokens] == [True, False, False, False]
        assert (draw.finish_reason, num_read, num_written) == ("length", 4, 0)
    longest = continued(backend.loaded.tokenizer("sun " * 512)["input_ids"], echo=True, max_tokens=0)
    assert len(run_async(backend.draw(longest, 1)).draws[0].tokens or ()) == 512
    with pytest.raises(ProtocolError, match="513 tokens, but this model reads 512"):
        run_async(backend.draw(continued("sun " * 513, echo=True, max_tokens=0), 1))


def test_a_character_comes_with_the_last_of_its_bytes() -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    ids = wrapped("aé€b")["input_ids"]
    assert [read(wrapped, ids[:place], ids[place]) for place in range(7)] == ["a", "", "é", "", "", "€", "b"]


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"messages": [{"role": "tool", "tool_call_id": "a", "content": "b"}]}, "tool_calls"),
        ({"frequency_penalty": 1}, "frequency_penalty"),
    ],
)
def test_what_a_model_in_this_process_cannot_do_is_refused(more: dict[str, object], name: str) -> None:
    backend = EmbeddedBackend(load("tiny:aligned"))
    with pytest.raises(ProtocolError, match=f"'{name}' is not supported by a model in this process"):
        run_async(backend.draw(asked(**more), 1))


def test_tools_that_must_not_be_called_change_nothing() -> None:
    tools = {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"}
    backend = EmbeddedBackend(load("tiny:aligned"))
    assert run_async(backend.draw(asked(temperature=0, **tools), 1)).draws[0].text == WHOLE
