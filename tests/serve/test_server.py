"""The server with the real `openai` client and curl: answers, refusals, and every way in which it must fail closed."""

import json
import signal
import subprocess
from collections.abc import Iterator, Sequence

import httpx
import openai
import pytest

from holdfast.judging import RefusalPhrases
from holdfast.judging.judge import Request
from holdfast.records import Verdict
from holdfast.serve import GuardedJudge
from serve.processes import begun, in_flight, running, server
from waiting import PATIENCE, run_async, wait_for

KEYS = ["a-key-for-tests", "another-test-key"]
SECONDS = {"backend_seconds": PATIENCE, "judge_seconds": PATIENCE, "request_seconds": 3 * PATIENCE}
SETTINGS = {"n": 4, "max_body_bytes": 4000, "retracting": True, **SECONDS}


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    with running("fake_backend.py", "0") as (address, _):
        yield address


@pytest.fixture(scope="module")
def address(backend: str) -> Iterator[str]:
    with server([backend], keys=KEYS, settings=SETTINGS, reward="likelihood") as (found, _):
        yield found


@pytest.fixture(scope="module")
def in_a_hurry(backend: str) -> Iterator[str]:
    """A server that does not wait for a backend: to be asked only what never comes."""
    with server([backend], keys=KEYS, settings={**SETTINGS, "backend_seconds": 0.5}) as (found, _):
        yield found


@pytest.fixture(scope="module")
def judged_in_a_hurry(backend: str) -> Iterator[str]:
    """The same for the judge."""
    with server([backend], keys=KEYS, settings={**SETTINGS, "judge_seconds": 0.5}) as (found, _):
        yield found


@pytest.fixture
def client(address: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{address}/v1", api_key=KEYS[1], max_retries=0, timeout=PATIENCE)


def post(address: str, content: str, **more: object) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": content}], **more}
    headers = {"Authorization": f"Bearer {KEYS[0]}"}
    return httpx.post(f"{address}/v1/chat/completions", json=body, headers=headers)


def test_the_openai_client_gets_a_judged_answer(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="holdfast", messages=[{"role": "user", "content": "hello"}])
    assert "[ok]" in (answer.choices[0].message.content or "")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (7, 20)
    told = answer.model_extra["holdfast"] if answer.model_extra else {}
    assert (told["verdict"], told["judge"], told["drawn"], told["judged"], told["safe"]) == ("safe", "tags", 4, 4, 4)
    assert [model.id for model in client.models.list()] == ["holdfast"]


def test_a_refusal_says_so_in_header_field_and_text(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="holdfast", messages=[{"role": "user", "content": "something bad"}]
    )
    answer = raw.parse()
    assert raw.headers["x-holdfast-verdict"] == "refused"
    assert "4 unsafe" in raw.headers["x-holdfast-reason"]
    assert answer.choices[0].finish_reason == "content_filter"
    assert "none of the candidates was judged safe" in (answer.choices[0].message.content or "")


def test_streaming_is_judged_first(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="holdfast",
            messages=[{"role": "user", "content": "hello"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.startswith("answer")
    assert "[ok]" in text
    assert chunks[0].model_extra is not None
    assert chunks[0].model_extra["holdfast"]["verdict"] == "safe"
    assert chunks[-1].usage is not None
    refused = client.chat.completions.create(
        model="holdfast", messages=[{"role": "user", "content": "bad"}], stream=True
    )
    assert "[bad]" not in "".join(chunk.choices[0].delta.content or "" for chunk in refused)


def test_curl(address: str) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]})
    command = [
        "curl",
        "-sS",
        "-D",
        "-",
        f"{address}/v1/chat/completions",
        "-H",
        f"Authorization: Bearer {KEYS[0]}",
        "-d",
        body,
    ]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "x-holdfast-verdict: safe" in told
    assert "[ok]" in told


def test_the_reward_chooses(address: str) -> None:
    """The likeliest of the four is the last."""
    told = post(address, "likeliest").json()["holdfast"]
    assert told["reason"].startswith("reward 0.905")


@pytest.mark.parametrize("fault", ["error", "garbled", "empty", "cut_off", "no_text", "slow"])
def test_a_failing_backend_is_an_error_not_an_answer(address: str, in_a_hurry: str, fault: str) -> None:
    response = post(in_a_hurry if fault == "slow" else address, f"do:{fault}")
    assert (response.status_code, response.json()["error"]["code"]) == (502, "backend_unavailable")
    assert response.headers["x-holdfast-verdict"] == "error"


def test_a_request_that_the_backend_refuses_is_the_clients_fault(address: str) -> None:
    """Else anybody could have a healthy backend gone round."""

    def failed_draws() -> list[str]:
        figures = httpx.get(f"{address}/metrics").text
        return [line for line in figures.splitlines() if line.startswith("holdfast_backend_errors_total")]

    post(address, "do:error")
    before = failed_draws()
    assert before
    response = post(address, "do:too_long")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "refused_by_backend")
    assert "maximum context length" not in response.text  # its words are not ours to pass on
    assert failed_draws() == before


@pytest.mark.parametrize("asked", ["do:partial", "do:broken_choice", "alone"])
def test_a_backend_that_gives_fewer_choices_is_asked_again(address: str, asked: str) -> None:
    """With another seed each time, so that none is drawn twice: the choices are of different draws."""
    told = post(address, asked, n=2, seed=5).json()
    assert (told["holdfast"]["drawn"], told["holdfast"]["safe"]) == (8, 8)
    assert told["choices"][0]["message"]["content"] != told["choices"][1]["message"]["content"]


@pytest.mark.parametrize("fault", ["raises", "hangs", "garbled", "truthy"])
def test_a_failing_judge_lets_nothing_through(address: str, judged_in_a_hurry: str, fault: str) -> None:
    response = post(judged_in_a_hurry if fault == "hangs" else address, f"judge:{fault}")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "judge_unavailable")
    assert "[ok]" not in response.text


def test_a_judge_that_miscounts_has_judged_nothing() -> None:
    class Miscounting(RefusalPhrases):
        def many(self, pairs: Sequence[tuple[Request, str]]) -> list[Verdict]:
            return [Verdict(True, 1.0, "fine", self.name)] * (len(pairs) - 1)

    faults: list[str] = []
    found = run_async(GuardedJudge(Miscounting(), seconds=PATIENCE, on_fault=faults.append)("who", ["a", "b", "c"]))
    assert [verdict.safe for verdict in found] == [None] * 3
    assert faults == ["the judge gave another number of verdicts"] * 3


def test_without_a_judge_no_answer_is_called_safe(backend: str) -> None:
    with server([backend], null=True, settings={"n": 1, "retracting": True}) as (address, _):
        response = post(address, "something bad")
        streamed = post(address, "something bad", stream=True, holdfast={"stream": "retracting"}).text
        figures = httpx.get(f"{address}/metrics").text
    told = response.json()["holdfast"]
    assert response.headers["x-holdfast-verdict"] == told["verdict"] == "unjudged"
    assert (told["judged"], told["safe"]) == (0, 0)
    assert told["reason"] == response.headers["x-holdfast-reason"] == "reward 0, the best of 1, not judged"
    assert "[bad]" in response.json()["choices"][0]["message"]["content"]
    assert ('"verdict": "unjudged"' in streamed, '"refused"' in streamed) == (True, False)
    assert 'holdfast_candidates_total{verdict="not judged"} 2.0' in figures
    assert 'verdict="safe"' not in figures


def test_an_empty_answer_is_never_safe(address: str) -> None:
    """The judge of these tests finds nothing bad in it."""
    response = post(address, "nothing")
    assert (response.status_code, response.headers["x-holdfast-verdict"]) == (200, "refused")
    assert "the answer is empty" in response.headers["x-holdfast-reason"]
    assert response.json()["holdfast"]["judged"] == 0


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "bad_json"),
        (b"[" * 3000, 400, "bad_json"),
        (b"[]", 400, "bad_json"),
        (b'{"messages": []}', 400, "bad_messages"),
        (b'{"messages": [{"role": "tool", "content": "x"}]}', 400, "bad_messages"),
        (b'{"messages": [{"role": "user", "content": 3}]}', 400, "bad_messages"),
        (b'{"messages": [{"role": "user", "content": "x"}], "n": 0}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "tools": [{}]}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": -1}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "temperature": -1}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "top_p": 2}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "seed": "a"}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "seed": true}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "seed": 9223372036854775808}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "stream": "false"}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "n": true}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "n": 1000}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "stop": [""]}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "stop": 3}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "logprobs": 1}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "top_logprobs": 2}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "model": ["a"]}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}', 400, "bad_value"),
        (b'{"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json"}}', 400, "unsupported"),
        (b'{"messages": [{"role": "assistant", "content": "x"}]}', 400, "bad_messages"),
        (b'{"messages": [{"role": "user", "content": "x"}], "top_k": 1}', 400, "unsupported"),
        (b'{"messages": [{"role": "user", "content": "x"}], "\\ud800": 1}', 400, "unsupported"),
        (b'{"messages": [{"role": "user", "content": "x"}], "holdfast": {"stream": "retract"}}', 400, "unsupported"),
        (b'{"messages": [{"role": "user", "content": "x"}], "holdfast": {"n": 9}}', 400, "unsupported"),
        (b'{"messages": [{"role": "user", "content": "x"}], "stream_options": ["include_usage"]}', 400, "unsupported"),
        (b'{"messages": [{"role": "user", "content": "x", "tool_calls": [{}]}]}', 400, "unsupported"),
        (b'{"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}', 400, "bad_messages"),
        (b'{"messages": [{"role": "user", "content": []}]}', 400, "bad_messages"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', 400, "bad_messages"),
        (b'{"messages": [{"role": "user", "content": "' + b"x" * 5000 + b'"}]}', 413, "too_large"),
    ],
)
def test_what_is_not_understood_is_refused(address: str, body: bytes, status: int, code: str) -> None:
    headers = {"Authorization": f"Bearer {KEYS[0]}"}
    response = httpx.post(f"{address}/v1/chat/completions", content=body, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_what_says_nothing_is_passed_over(address: str) -> None:
    """The protocol lets a client write null for what it does not want, and fields that do not change the answer."""
    told = post(address, "hello", n=None, tools=None, logprobs=False, top_k=None, user="me", metadata={"a": "b"})
    assert told.status_code == 200
    wishes = {"holdfast": {"stream": None}, "stream_options": {"include_usage": False}}
    assert post(address, "hello", **wishes).status_code == 200
    body = {
        "messages": [{"role": "user", "content": "hello", "name": None, "provider_specific_fields": {"refusal": None}}]
    }
    headers = {"Authorization": f"Bearer {KEYS[0]}"}
    assert httpx.post(f"{address}/v1/chat/completions", json=body, headers=headers).status_code == 200


def test_a_body_that_never_comes_is_not_waited_for(backend: str) -> None:
    """It holds a place among the requests, and would keep the server from ending."""
    with server([backend], settings={"body_seconds": 1.0}) as (address, process):
        with begun(address, KEYS[0], b"{") as client:
            assert client.recv(100).startswith(b"HTTP/1.1 408 ")
            wait_for(lambda: in_flight(address) == 0)
        with begun(address, KEYS[0], b"{"):
            wait_for(lambda: in_flight(address) == 1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) in (0, -signal.SIGTERM)


def test_a_body_that_hides_its_length_is_cut_off(address: str) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 1000

    headers = {"Authorization": f"Bearer {KEYS[0]}"}
    response = httpx.post(f"{address}/v1/chat/completions", content=parts(), headers=headers)
    assert response.status_code == 413


@pytest.mark.parametrize("key", [None, "-", "a-key-for-test", "a-key-for-tests2", "ä" * 9])
def test_keys(address: str, key: str | None) -> None:
    headers = {} if key is None else {"Authorization": f"Bearer {key}".encode()}
    for path in ("chat/completions", "models"):
        method = "GET" if path == "models" else "POST"
        response = httpx.request(method, f"{address}/v1/{path}", headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (401, "invalid_api_key")


def test_a_retracting_stream_says_what_it_is_and_takes_back(address: str) -> None:
    def num_candidates() -> float:
        lines = httpx.get(f"{address}/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("holdfast_candidates_total"))

    before = num_candidates()
    for asked, verdict in (("hello", "safe"), ("bad", "refused"), ("judge:raises", "refused")):
        response = post(address, asked, stream=True, holdfast={"stream": "retracting"})
        assert response.headers["x-holdfast-verdict"] == "unjudged"
        assert "before it is judged" in response.headers["x-holdfast-warning"]
        lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
        assert lines.pop() == "[DONE]"
        chunks = [json.loads(line) for line in lines]
        assert all(chunk["holdfast"]["judged"] is False for chunk in chunks)
        shown = ""
        for chunk in chunks:
            if chunk["holdfast"].get("event") == "undo":
                shown = shown[: len(shown) - chunk["holdfast"]["num_chars"]]
            shown += chunk["choices"][0]["delta"].get("content") or ""
        assert chunks[-1]["holdfast"]["verdict"] == verdict
        assert ("[ok]" in shown) == (verdict == "safe")
        assert "[bad]" not in shown
    assert num_candidates() == before + 3


@pytest.mark.parametrize(
    ("name", "text"), [("line_separator", "one \u2028 two [ok]"), ("half_character", "half ? [ok]")]
)
def test_a_retracting_stream_survives_odd_but_lawful_bytes(address: str, name: str, text: str) -> None:
    response = post(address, f"wire:{name}", stream=True, holdfast={"stream": "retracting"})
    chunks = [json.loads(line[6:]) for line in response.text.split("\n") if line.startswith("data: {")]
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == text
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_retracting_stream_does_not_keep_usage_to_itself(address: str) -> None:
    wishes = {"stream_options": {"include_usage": True}, "holdfast": {"stream": "retracting"}}
    assert post(address, "hello", stream=True, **wishes).json()["error"]["code"] == "unsupported"


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ("do:too_long", 400, "refused_by_backend"),
        ("do:error", 502, "backend_unavailable"),
        ("do:slow", 502, "backend_unavailable"),
    ],
)
def test_a_retracting_stream_without_a_piece_is_an_error(
    address: str, in_a_hurry: str, asked: str, status: int, code: str
) -> None:
    target = in_a_hurry if asked == "do:slow" else address
    response = post(target, asked, stream=True, holdfast={"stream": "retracting"})
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(("reason", "told"), [("stop", "stop"), ("length", "length"), ("error", "content_filter")])
def test_a_retracting_stream_says_how_it_ended(address: str, reason: str, told: str) -> None:
    """What the backend itself broke off is not whole, as when it is not streamed."""
    response = post(address, f"ends:{reason}", stream=True, holdfast={"stream": "retracting"})
    chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + [told]


def test_health_and_metrics_tell_figures_but_no_prompts(address: str) -> None:
    post(address, "a prompt with the word xylophone")
    assert httpx.get(f"{address}/healthz").json()["status"] == "ok"
    figures = httpx.get(f"{address}/metrics").text
    assert 'holdfast_requests_total{outcome="answered"}' in figures
    assert "holdfast_judge_faults_total" in figures
    assert "xylophone" not in figures


def test_a_client_that_goes_leaves_nothing_behind(address: str) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "do:slow"}]}).encode()
    with begun(address, KEYS[0], body, len(body)):
        wait_for(lambda: in_flight(address) == 1)
    wait_for(lambda: in_flight(address) == 0)
    assert 'outcome="client gone"' in httpx.get(f"{address}/metrics").text
