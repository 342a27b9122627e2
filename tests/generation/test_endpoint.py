"""The endpoint sampler against a real server on a real socket, faults included."""

import socket

import pytest

from generation.fake_server import serving
from holdfast.config import InputError
from holdfast.generation import EndpointSampler
from holdfast.records import Trace, answer, context
from holdfast.worlds import with_system
from waiting import PATIENCE, run_async


def echo(messages: list[dict[str, str]]) -> str:
    return f"you said: {messages[-1]['content']}"


def sampler(url: str, **changes: object) -> EndpointSampler:
    return EndpointSampler(url, **{"model": "known", "first_wait": 0.01, "timeout": PATIENCE, **changes})  # type: ignore[arg-type]


def test_answers_come_in_order_and_settings_are_sent() -> None:
    with serving(echo) as (url, seen):
        texts = [f"request {i}" for i in range(20)]
        found = sampler(url)(texts, max_new_tokens=7, temperature=0.5, top_p=0.9, seed=3)
    assert [each.text for each in found] == [f"you said: {text}" for text in texts]
    assert [each.prompt for each in found] == texts
    assert {each.finish_reason for each in found} == {"stop"}
    sent = seen.bodies[0]
    assert (sent["max_tokens"], sent["temperature"], sent["top_p"], sent["seed"]) == (7, 0.5, 0.9, 3)
    assert "Authorization" not in seen.headers[0]


def test_it_works_where_a_loop_is_running_already() -> None:
    """As in a notebook: asyncio.run refuses to start there."""

    async def cell() -> str:
        with serving(echo) as (url, _):
            return sampler(url)(["one"], max_new_tokens=4)[0].text

    assert run_async(cell()) == "you said: one"


def test_conversations_keep_their_turns_and_a_begun_answer_is_gone_on_with() -> None:
    row = with_system(Trace((context("user", "hello"), answer("good day"))), "be kind")
    begun = Trace((context("user", "hello"), context("assistant", "good")))
    with serving(echo) as (url, seen):
        sampler(url, concurrency=1)([row, begun.turns], max_new_tokens=3)
    assert seen.bodies[0]["messages"] == [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "hello"},
    ]
    assert seen.bodies[1]["messages"][-1] == {"role": "assistant", "content": "good"}
    assert (seen.bodies[1]["continue_final_message"], seen.bodies[1]["add_generation_prompt"]) == (True, False)


@pytest.mark.parametrize("fault", ["error500", "rate429", "slow", "not json", "no choices", "hang up"])
def test_passing_faults_are_outlasted(fault: str) -> None:
    timeout = 1.0 if fault == "slow" else PATIENCE
    with serving(echo) as (url, seen):
        (found,) = sampler(url, timeout=timeout, num_tries=50)([f"{fault}*2 hello"], max_new_tokens=3)
    assert found.text == f"you said: {fault}*2 hello"
    tries = seen.tries[f"{fault}*2 hello"]
    assert tries == 3 or (fault == "slow" and tries > 3)  # this machine may be slow too


def test_an_answer_that_never_comes_is_an_error_and_is_told() -> None:
    told: list[str] = []
    with serving(echo) as (url, seen):
        found = sampler(url, num_tries=3, say=told.append)(
            ["error500*9 x", "fine", "bad400*9 y", "also fine"], max_new_tokens=3
        )
    assert [each.finish_reason for each in found] == ["error", "stop", "error", "stop"]
    assert [each.text for each in found][0::2] == ["", ""]
    assert seen.tries == {"error500*9 x": 3, "fine": 1, "bad400*9 y": 1, "also fine": 1}  # a 400 is not tried again
    (line,) = told
    assert "2 of 4 answers never came" in line
    assert "HTTP 500 (1)" in line
    assert "HTTP 400 (1)" in line


def test_no_more_requests_at_once_than_allowed() -> None:
    with serving(echo, together=3) as (url, seen):
        progress: list[tuple[int, int]] = []
        sampler(url, concurrency=3)(
            [str(i) for i in range(12)], max_new_tokens=3, on_progress=lambda *at: progress.append(at)
        )
    assert seen.most_at_once == 3
    assert progress == [(i, 12) for i in range(1, 13)]


def test_the_key_is_sent_and_never_shown() -> None:
    with serving(echo, key="very-secret") as (url, _):
        assert sampler(url, key="very-secret")(["hello"], max_new_tokens=3)[0].text
        with pytest.raises(InputError, match="HTTP 401") as error:
            sampler(url, key="wrong-secret")(["hello"] * 5, max_new_tokens=3)
    assert "secret" not in str(error.value)
    assert "secret" not in repr(sampler(url, key="very-secret"))


def test_a_model_that_is_not_there_is_the_users_mistake() -> None:
    with serving(echo) as (url, _), pytest.raises(InputError, match="HTTP 404 for model 'unknown'"):
        sampler(url, model="unknown")(["hello"] * 5, max_new_tokens=3)


def test_no_server_at_all() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(InputError, match="not one of 3 answers came: ConnectError"):
        sampler(url, num_tries=2)(["a", "b", "c"], max_new_tokens=3)


@pytest.mark.parametrize("url", ["http://", "ftp://host/v1", "http://user:pw@host/v1", "http://host/v1?key=1"])
def test_addresses_that_are_none_or_carry_secrets(url: str) -> None:
    with pytest.raises(InputError) as error:
        sampler(url)
    assert "pw" not in str(error.value)


def test_half_a_character_does_not_break_a_file() -> None:
    with serving(lambda _: "bad \ud800 end") as (url, _):
        (found,) = sampler(url)(["hello"], max_new_tokens=3)
    assert found.text.encode()
    assert found.text.startswith("bad ")
