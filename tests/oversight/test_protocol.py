"""The rest of the OpenAI protocol with the real client: several answers, log-probabilities, tools, names, errors, limits."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from serve.processes import running, server

SETTINGS = {"n": 2, "max_tokens": 100, "retracting": True}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    with running("fake_backend.py", "0", "0.01") as (address, _):
        yield address


@pytest.fixture(scope="module")
def address(backend: str) -> Iterator[str]:
    with server([backend], settings=SETTINGS) as (found, _):
        yield found


@pytest.fixture(scope="module")
def unjudged(backend: str) -> Iterator[str]:
    with server([backend], settings=SETTINGS, null=True) as (found, _):
        yield found


def client_of(address: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{address}/v1", api_key="unused", max_retries=0)


def ask(address: str, text: str, **more: Any) -> Any:
    messages = more.pop("messages", [{"role": "user", "content": text}])
    return client_of(address).chat.completions.create(model="holdfast", messages=messages, **more)


def sent_on(address: str, **more: Any) -> dict[str, Any]:
    """What the backend was asked."""
    body: dict[str, Any] = json.loads(ask(address, "request", **more).choices[0].message.content.removeprefix("[ok] "))
    return body


def test_every_answer_of_n_is_the_best_of_its_own_candidates(address: str) -> None:
    answer = ask(address, "hello", n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) == 3
    assert [choice.model_extra["holdfast"]["drawn"] for choice in answer.choices] == [2, 2, 2]
    assert answer.model_extra["holdfast"]["drawn"] == 6
    refused = ask(address, "bad", n=2)
    assert [choice.finish_reason for choice in refused.choices] == ["content_filter"] * 2
    assert "2 of 2 answers refused" in refused.model_extra["holdfast"]["reason"]


def test_a_stream_of_several_answers(address: str) -> None:
    chunks = list(ask(address, "hello", n=2, stream=True, stream_options={"include_usage": True}))
    texts = ["", ""]
    for chunk in chunks[:-1]:
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert all(re.fullmatch(r"answer \w+ \[ok\]", text) for text in texts)
    assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], 27)


def test_seed_and_stop_go_to_the_backend(address: str) -> None:
    sent = sent_on(address, seed=5, stop="halt")
    assert (sent["seed"], sent["stop"]) == (5, ["halt"])


def test_a_backend_that_ignores_n_is_asked_again_with_other_seeds(address: str) -> None:
    """Four candidates for two answers: the first two are the best of their groups, because all have one reward."""
    answer = ask(address, "alone", n=2, seed=5)
    assert [choice.message.content for choice in answer.choices] == ["seed 5 [ok]", "seed 6 [ok]"]
    assert answer.model_extra["holdfast"]["drawn"] == 4


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities_show_no_word_that_was_not_judged(address: str, stream: bool) -> None:
    """The end token is not in the text, and the alternative is a word that the judge would not let pass."""
    answer = ask(address, "hello", logprobs=True, top_logprobs=1, stream=stream)
    choices = [chunk.choices[0] for chunk in answer] if stream else answer.choices
    (told,) = [choice.logprobs for choice in choices if choice.logprobs]
    (token,) = told.content
    text = "".join(choice.delta.content or "" for choice in choices) if stream else choices[0].message.content
    assert (token.token, bytes(token.bytes).decode(), token.logprob) == (text, text, -1.0)
    assert [(other.token, other.logprob) for other in token.top_logprobs] == [("<not judged 1>", -0.5)]


def test_without_a_judge_log_probabilities_name_the_alternatives(unjudged: str) -> None:
    (token,) = ask(unjudged, "hello", logprobs=True, top_logprobs=1).choices[0].logprobs.content
    assert [other.token for other in token.top_logprobs] == ["other [bad]"]
    assert ask(unjudged, "hello").choices[0].logprobs is None


def test_what_asks_for_nothing_is_accepted(address: str) -> None:
    nothing = {"response_format": {"type": "text"}, "tool_choice": "none", "parallel_tool_calls": True, "stop": []}
    ours = {"top_k": -1, "repetition_penalty": 1.0, "logit_bias": {}, "functions": None, "function_call": "none"}
    assert "[ok]" in ask(address, "hello", **nothing, extra_body=ours).choices[0].message.content
    assert set(sent_on(address, **nothing, extra_body=ours)) == {"model", "messages", "temperature", "max_tokens", "n"}


def test_tools_go_to_the_backend_and_the_call_is_judged(address: str) -> None:
    answer = ask(address, "call ok", tools=[WEATHER], tool_choice="auto")
    choice = answer.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    (call,) = choice.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"tag": "ok"})
    refused = ask(address, "call [bad]", tools=[WEATHER])
    assert (refused.choices[0].finish_reason, refused.choices[0].message.tool_calls) == ("content_filter", None)
    assert refused.model_extra["holdfast"]["safe"] == 0


def test_a_stream_of_a_tool_call(address: str) -> None:
    chunks = list(ask(address, "call ok", tools=[WEATHER], stream=True))
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert [(call.index, call.function.name) for call in calls] == [(0, "weather")]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_a_tools_result_goes_to_the_backend_as_it_came(address: str) -> None:
    call = ask(address, "call ok", tools=[WEATHER]).choices[0].message
    messages = [
        {"role": "user", "content": "call ok"},
        call.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "request"},
    ]
    sent = sent_on(address, messages=messages, tools=[WEATHER])
    assert sent["tools"] == [WEATHER]
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool"]
    assert sent["messages"][1]["tool_calls"][0]["function"]["name"] == "weather"
    assert sent["messages"][2]["tool_call_id"] == call.tool_calls[0].id


def test_a_tool_call_that_nobody_asked_for_is_no_candidate() -> None:
    with (
        running("fake_backend.py", "0", "0.01", "calls") as (calling, _),
        server([calling]) as (address, _),
        pytest.raises(openai.InternalServerError, match="the model did not answer"),
    ):
        ask(address, "hello")


def test_models_by_name(address: str) -> None:
    client = client_of(address)
    assert client.models.retrieve("holdfast").id == "holdfast"
    with pytest.raises(openai.NotFoundError, match="the model 'gpt-4o' does not exist; this server has 'holdfast'"):
        client.models.retrieve("gpt-4o")
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "hello"}])
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("POST", "/v1/embeddings", 404, "not_found"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models/holdfast", 405, "method_not_allowed"),
        ("GET", "/v1/models/a/b", 404, "model_not_found"),
    ],
)
def test_every_error_has_the_protocols_shape(address: str, method: str, path: str, status: int, code: str) -> None:
    response = httpx.request(method, address + path)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["type"]) == (status, code, "invalid_request_error")
    assert ("allow" in response.headers) == (status == 405)


def test_a_limit_on_tokens_is_told(backend: str) -> None:
    with server([backend], settings=SETTINGS, log=True) as (address, process):
        raw = client_of(address).chat.completions.with_raw_response
        hello: Any = [{"role": "user", "content": "hello"}]
        cut = raw.create(model="holdfast", messages=hello, max_completion_tokens=5000)
        assert cut.headers["x-holdfast-clamped"] == "max_tokens 5000 -> 100"
        assert "x-holdfast-clamped" not in raw.create(model="holdfast", messages=hello, max_tokens=100).headers
        process.terminate()
        assert process.stderr is not None
        log = process.stderr.read()
    assert log.count("clamped: max_tokens 5000 -> 100") == 1


def test_a_backend_without_completions_is_not_held_for_broken(address: str) -> None:
    with pytest.raises(openai.BadRequestError, match="it has no /completions"):
        client_of(address).completions.create(model="holdfast", prompt="hello")
    assert "holdfast_backend_errors_total{" not in httpx.get(f"{address}/metrics").text


def test_a_judge_reads_no_tokens(address: str) -> None:
    with pytest.raises(openai.BadRequestError, match="send the prompt as text"):
        client_of(address).completions.create(model="holdfast", prompt=[1, 2, 3])


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt": ""},
        {"prompt": []},
        {"prompt": [[]]},
        {"prompt": [True]},
        {"prompt": [1, "a"]},
        {"prompt": {"text": "a"}},
        {"prompt": ["a"] * 65},
        {"prompt": "a", "max_tokens": 0},
        {"prompt": "a", "logprobs": 21},
        {"prompt": "a", "logprobs": True},
        {"prompt": "a", "echo": "yes"},
        {"prompt": "a", "best_of": 3},
        {"prompt": "a", "suffix": "b"},
        {"prompt": "a", "messages": [{"role": "user", "content": "b"}]},
    ],
)
def test_completions_refuse_what_they_do_not_understand(address: str, wrong: dict[str, Any]) -> None:
    response = httpx.post(f"{address}/v1/completions", json=wrong)
    assert (response.status_code, response.json()["error"]["code"] in ("bad_value", "unsupported")) == (400, True)
