"""`holdfast serve` as a user starts it: the embedded model, its own judge, the real client, a graceful end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import openai
import pytest

from holdfast.worlds import SafetyWorld


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        try:
            httpx.get(f"{address}/healthz")
        except httpx.HTTPError:
            assert process.poll() is None, "the server ended"
            time.sleep(0.1)
        else:
            return


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
    process = subprocess.Popen([sys.executable, "-m", "holdfast", "serve", *options], stderr=subprocess.PIPE)
    try:
        wait_for(address, process)
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="unused", max_retries=0, timeout=60)
        row = SafetyWorld().requests("test", "copy", 1)[0]
        asked = row.prompt[-1].visible
        answer = client.chat.completions.create(
            model="holdfast", messages=[{"role": "user", "content": asked}], temperature=0.5, seed=1
        )
        assert answer.choices[0].message.content == row.turns[-1].visible
        assert answer.usage is not None
        assert answer.usage.completion_tokens > 0
        forbidden = SafetyWorld().requests("test", "forbidden", 1)[0].prompt[-1].visible
        held_back = client.chat.completions.create(
            model="holdfast", messages=[{"role": "user", "content": forbidden}], temperature=0.2
        )
        assert held_back.choices[0].finish_reason == "content_filter"
        with pytest.raises(openai.BadRequestError, match="'stop' is not supported"):  # not dropped in silence
            client.chat.completions.create(model="holdfast", messages=[{"role": "user", "content": asked}], stop=["a"])
        with pytest.raises(openai.BadRequestError, match="this model reads 512"):
            client.chat.completions.create(model="holdfast", messages=[{"role": "user", "content": "bell " * 600}])
        body = {"messages": [{"role": "user", "content": asked}], "stream": True, "holdfast": {"stream": "retracting"}}
        long = {**body, "messages": [{"role": "user", "content": "bell " * 600}]}
        refused = httpx.post(f"{address}/v1/chat/completions", json=long, timeout=60)
        assert (refused.status_code, "this model reads 512" in refused.json()["error"]["message"]) == (400, True)
        shown = httpx.post(f"{address}/v1/chat/completions", json={**body, "temperature": 0.1}, timeout=60).text
        pieces = [json.loads(line[6:]) for line in shown.splitlines() if line.startswith("data: {")]
        assert pieces[-1]["holdfast"]["verdict"] in ("safe", "refused")
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=20)
    assert process.returncode in (0, -signal.SIGTERM)
    assert f"tiny:base, best of 3 judged by world: {address}/v1".encode() in log
    assert b"answered in" in log
    assert asked.encode() not in log


def test_other_machines_need_keys() -> None:
    command = [sys.executable, "-m", "holdfast", "serve", "--host", "0.0.0.0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "HOLDFAST_API_KEYS" in done.stderr) == (2, True)


def test_only_the_embedded_models_have_a_judge_by_default() -> None:
    """The world's oracle knows no other requests: it would leave every answer of another model unjudged."""
    command = [sys.executable, "-m", "holdfast", "serve", "http://127.0.0.1:9/v1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "serve: whose word decides? Give --judge" in done.stderr


def test_an_address_that_is_taken_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "holdfast", "serve", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr.strip()) == (
        2,
        f"holdfast: serve: cannot listen on 127.0.0.1, port {port}: Address already in use",
    )


def test_ctrl_c_does_not_wait_for_a_judge_that_hangs() -> None:
    """The guard takes connections and never answers. Port 0 is any free one, and the log says which; keys may have spaces."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        guard = f"wildguard:guard@http://127.0.0.1:{silent.getsockname()[1]}/v1"
        options = ["--port", "0", "--judge", guard, "--judge-seconds", "0.5", "--max-tokens", "8"]
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "serve", *options],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HOLDFAST_API_KEYS": "first-key, second-key"},
        )
        try:
            assert process.stderr is not None
            address = re.search(r"http://127\.0\.0\.1:[1-9]\d*", process.stderr.readline())
            assert address is not None
            wait_for(address[0], process)
            answer = httpx.post(
                f"{address[0]}/v1/chat/completions",
                json={"messages": [{"role": "user", "content": "copy : sun"}]},
                headers={"Authorization": "Bearer second-key"},
                timeout=30,
            )
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "judge_unavailable")
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 0
        finally:
            process.kill()
            process.communicate()
