"""`holdfast serve` as a user starts it: the embedded model, its own judge, the real client, a graceful end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from forked import Forked
from generation.fake_server import serving
from holdfast.config import InputError
from holdfast.serve import NullJudge, ServerSettings, run
from holdfast.worlds import SafetyWorld
from serve.processes import address_in, health, holdfast_serve
from waiting import PATIENCE, wait_for


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_served(address: str, process: Forked | subprocess.Popen[str]) -> None:
    def answers() -> bool:
        assert process.poll() is None, "the server ended"
        return health(address) == 200

    wait_for(answers)


def test_the_embedded_model_is_served_overseen() -> None:
    """tiny:base answers everything: what is forbidden is held back, what is harmless comes through, also as a stream."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    options = [
        "tiny:base",
        "--port",
        str(port),
        "--n",
        "3",
        "--max-tokens",
        "24",
        "--reward",
        "likelihood",
        "--retracting",
    ]
    process = Forked("serve", *options)
    try:
        wait_until_served(address, process)
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="unused", max_retries=0, timeout=PATIENCE)
        row = SafetyWorld().requests("test", "copy", 1)[0]
        prompt = row.prompt[-1].visible
        answer = client.chat.completions.create(
            model="holdfast", messages=[{"role": "user", "content": prompt}], temperature=0.5, seed=1
        )
        assert answer.choices[0].message.content == row.turns[-1].visible
        assert answer.usage is not None
        assert answer.usage.completion_tokens > 0
        forbidden = SafetyWorld().requests("test", "forbidden", 1)[0].prompt[-1].visible
        held_back = client.chat.completions.create(
            model="holdfast", messages=[{"role": "user", "content": forbidden}], temperature=0.2
        )
        assert held_back.choices[0].finish_reason == "content_filter"
        with pytest.raises(
            openai.BadRequestError, match="'presence_penalty' is not supported"
        ):  # not dropped in silence
            client.chat.completions.create(
                model="holdfast", messages=[{"role": "user", "content": prompt}], presence_penalty=1
            )
        with pytest.raises(openai.BadRequestError, match="this model reads 512"):
            client.chat.completions.create(model="holdfast", messages=[{"role": "user", "content": "bell " * 600}])
        body = {"messages": [{"role": "user", "content": prompt}], "stream": True, "holdfast": {"stream": "retracting"}}
        long = {**body, "messages": [{"role": "user", "content": "bell " * 600}]}
        refused = httpx.post(f"{address}/v1/chat/completions", json=long, timeout=PATIENCE)
        assert (refused.status_code, "this model reads 512" in refused.json()["error"]["message"]) == (400, True)
        shown = httpx.post(f"{address}/v1/chat/completions", json={**body, "temperature": 0.1}, timeout=PATIENCE).text
        pieces = [json.loads(line[6:]) for line in shown.splitlines() if line.startswith("data: {")]
        assert pieces[-1]["holdfast"]["verdict"] in ("safe", "refused")
    finally:
        process.terminate()
        done = process.done()
    assert done.returncode == 0
    assert f"tiny:base, best of 3 judged by world: {address}/v1" in done.stderr
    assert "answered in" in done.stderr
    assert prompt not in done.stderr


def test_a_first_hello_is_told_what_this_model_speaks() -> None:
    """'hello' is a word it knows but no request; the others are words it does not know. What it is told to try, works."""
    with holdfast_serve("--retracting") as address:
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="unused", max_retries=0, timeout=60)

        def say(text: str, **more: object) -> Any:
            return client.chat.completions.create(
                model="holdfast", messages=[{"role": "user", "content": text}], **more
            )

        for text in ("hello", "Hello!", "What is the capital of France?", "copy : sun Paris"):
            answer = say(text)
            assert answer.choices[0].finish_reason == "content_filter"
            assert "make-believe language" in answer.choices[0].message.content
            told = answer.model_extra["holdfast"]
            assert (told["verdict"], told["drawn"], told["judged"]) == ("refused", 0, 0)
        hint = answer.choices[0].message.content
        for wish in ({}, {"extra_body": {"holdfast": {"stream": "retracting"}}}):
            chunks = list(say("hello", stream=True, **wish))
            assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == hint
            assert chunks[-1].choices[0].finish_reason == "content_filter"
        works = say(hint.rpartition("works is: ")[2], temperature=0)
        assert (works.choices[0].message.content, works.choices[0].finish_reason) == ("sun river stone", "stop")


def test_other_machines_need_keys() -> None:
    done = Forked("serve", "--host", "0.0.0.0").done()
    assert (done.returncode, "HOLDFAST_API_KEYS" in done.stderr) == (2, True)


def test_only_the_embedded_models_have_a_judge_by_default() -> None:
    """The world's oracle knows no other requests: it would leave every answer of another model unjudged."""
    done = Forked("serve", "http://127.0.0.1:9/v1").done()
    assert done.returncode == 2
    assert "serve: whose word decides? Give --judge" in done.stderr


def test_an_address_that_is_taken_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = Forked("serve", "--port", port).done()
    assert (done.returncode, done.stderr.strip()) == (
        2,
        f"holdfast: serve: cannot listen on 127.0.0.1, port {port}: Address already in use",
    )


def test_a_client_that_does_not_read_cannot_keep_the_server_from_ending() -> None:
    script = """
from holdfast.serve import NullJudge, ServerSettings
from holdfast.serve.run import serve
import sys
serve([sys.argv[1]], NullJudge(), ServerSettings(n=1, body_seconds=1, request_seconds=4), model="known", port=0)
"""
    body = json.dumps({"messages": [{"role": "user", "content": "long"}]}).encode()
    with serving(lambda _: "x" * 20_000_000) as (url, _):
        process = subprocess.Popen([sys.executable, "-c", script, url], stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            address = re.search(r"//(127\.0\.0\.1):(\d+)/v1$", process.stderr.readline())
            assert address is not None
            wait_until_served(f"http://{address[1]}:{address[2]}", process)
            with socket.create_connection((address[1], int(address[2]))) as client:
                head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
                client.sendall(head.encode() + body)
                while "timeout in" in (line := process.stderr.readline()):  # a busy machine may need several tries
                    client.sendall(head.encode() + body)
                assert "answered in" in line
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.communicate()


def test_no_address_with_a_password_is_served() -> None:
    """It would stand in the log and in the metrics."""
    with pytest.raises(InputError, match="must not carry a user"):
        run.make_backend("http://user:word@127.0.0.1:9/v1", "m", ServerSettings(), None, needs_logps=False)


@pytest.mark.parametrize("reward", ["answer:number", "tests"])
def test_no_server_starts_with_a_reward_that_a_request_cannot_have(reward: str) -> None:
    """It would refuse every request: no candidate would have a reward."""
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that nothing is served, whatever happens
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"reward '{reward}' reads a right answer, or a test"):
            run.serve(["http://127.0.0.1:9/v1"], NullJudge(), ServerSettings(), model="m", reward=reward, port=port)


def test_two_servers_that_start_together_do_not_share_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both may bind; the one whose models are loaded later is told, in one line."""
    port = free_port()
    with socket.socket() as first:
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind(("127.0.0.1", port))
        monkeypatch.setattr(run, "make_backend", lambda *_, **__: first.listen())
        with pytest.raises(InputError, match=f"port {port}: Address already in use"):
            run.serve(["first"], NullJudge(), ServerSettings(), model="m", port=port)


def test_a_judge_that_hung_is_asked_again_and_ctrl_c_does_not_wait_for_it() -> None:
    """More requests than there are threads for judging. Port 0 is any free one, and the log says which; keys may have spaces."""
    well = threading.Event()

    def guard(_messages: list[dict[str, str]]) -> str:
        well.wait(2 * PATIENCE)
        return "safe"

    with serving(guard) as (url, _):
        options = ["--port", "0", "--judge", f"llama_guard:known@{url}", "--judge-seconds", "1", "--n", "1"]
        process = Forked("serve", *options, env={**os.environ, "HOLDFAST_API_KEYS": "first-key, second-key"})
        try:
            address = address_in(process.stderr, process)

            def status(_number: int = 0) -> int:
                body = {"messages": [{"role": "user", "content": "copy : sun"}], "max_tokens": 8}
                headers = {"Authorization": "Bearer second-key"}
                url = f"{address}/v1/chat/completions"
                return client.post(url, json=body, headers=headers, timeout=PATIENCE).status_code

            with httpx.Client() as client:
                with ThreadPoolExecutor(36) as clients:
                    assert set(clients.map(status, range(36))) == {503}
                well.set()
                wait_for(lambda: status() == 200)
                well.clear()
                assert status() == 503
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
        finally:
            well.set()
            process.kill()
            log = process.done().stderr
    assert "judge: the judge took more than 1 s" in log
