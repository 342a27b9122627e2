"""Who may look: the right token, the right Host, the right Origin, and nobody else; and only what lies under the folder."""

import http.client
import json
import os
import socket
from unittest.mock import AsyncMock
from urllib.parse import urlsplit

import httpx
import pytest

from holdfast.config import InputError
from holdfast.view import make_view, open_view
from view.serving import TOKEN, holdfast_view, serving, urls_in, write_training
from waiting import run_async, wait_for


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    write_training(root / "one")
    with serving(root) as url:
        yield url


def raw(address, path, method="GET", body=None, **headers):
    """A request as it stands: nothing is normalised on the way."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    sent = {"Host": parts.netloc, "Content-Length": str(len(body or b"")), **headers}
    for name, value in sent.items():
        if value is not None:
            connection.putheader(name.replace("_", "-"), value)
    connection.endheaders(body)
    return connection.getresponse()


@pytest.mark.parametrize(
    "path", ["/", "/charts", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", "/%00/", "//", f"/x/{TOKEN}/", "/%C3%A9/"]
)
def test_without_the_token_there_is_nothing(address, path):
    answer = raw(address, path)
    assert answer.status == 404
    assert b"runs" not in answer.read()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "0.0.0.0:1", None])
def test_a_wrong_host_is_refused(address, host):
    assert raw(address, f"/{TOKEN}/models", Host=host).status in (400, 403)  # 400: uvicorn's own, where there is none


def test_a_page_of_another_site_is_refused(address):
    own = f"http://{urlsplit(address).netloc}"
    assert raw(address, f"/{TOKEN}/models", Origin=own).status == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", own.replace("http:", "https:")):
        assert raw(address, f"/{TOKEN}/models", Origin=origin).status == 403
    for site in ("cross-site", "same-site"):
        assert raw(address, f"/{TOKEN}/models", Sec_Fetch_Site=site).status == 403


def test_a_post_must_say_where_it_comes_from(address):
    body = json.dumps({"model": "tiny:aligned"}).encode()
    assert raw(address, f"/{TOKEN}/chat", "POST", body).status == 403
    own = f"http://{urlsplit(address).netloc}"
    assert raw(address, f"/{TOKEN}/chat", "POST", body, Origin=own).status == 400


def test_every_answer_has_the_strict_policy(address):
    for path in ("", "models", "assets/runs.js", "nothing", "charts", "../"):
        headers = httpx.get(address + path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"


def test_a_run_is_named_by_its_id_alone(address):
    for name in ("../one", "..%2fone", "one", "%2e%2e", "/etc", ""):
        for path in (f"runs/{name}/report", f"matrix/{name}", f"charts?run={name}"):
            answer = raw(address, f"/{TOKEN}/{path}")
            assert answer.status == 404 or b"<svg" not in answer.read()


def test_only_named_models_are_loaded(address, small_model):
    origin = {"origin": f"http://{urlsplit(address).netloc}"}
    ask = {"messages": [{"role": "user", "content": "hello"}]}
    for model in (str(small_model), "run:../x", "run:", "gpt2", "tiny:other"):
        told = httpx.post(address + "chat", json={**ask, "model": model}, headers=origin, timeout=60).text
        assert "no such model here" in told


def test_too_much_text_is_refused(address):
    own = f"http://{urlsplit(address).netloc}"
    assert httpx.post(address + "chat", content=b"x" * (2 << 20), headers={"origin": own}).status_code == 413
    for body in (b"", b"[]", b"{", b'{"model": 1}', b"[" * 100_000):
        assert httpx.post(address + "chat", content=body, headers={"origin": own}).status_code == 400


def test_nothing_but_try_it_takes_a_post(address):
    for path in ("", "charts", "events", "models", "assets/runs.js"):
        own = f"http://{urlsplit(address).netloc}"
        assert httpx.post(address + path, headers={"origin": own}).status_code == 405


def test_the_command_prints_one_address_and_ends_when_told(tmp_path):
    write_training(tmp_path / "one")
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    with holdfast_view(str(tmp_path), "--port", "0") as (url, process):
        assert urls_in(url) == [url]
        assert httpx.get(url).status_code == 200
        with pytest.raises(httpx.ConnectError):  # this machine's other addresses are not listened on
            httpx.get(url.replace("127.0.0.1", "127.0.0.2"))
        with httpx.stream("GET", url + "events") as stream:  # a page that listens for ever does not keep it from ending
            told = next(line for line in stream.iter_lines() if line.startswith("data: "))
            assert json.loads(told[6:])["runs"][0]["name"] == "one"
            process.terminate()
            wait_for(lambda: process.poll() is not None)
        out, err = process.communicate()
        assert (out, urls_in(err), process.returncode) == ("", [], 0)
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    with holdfast_view(str(tmp_path / "none")) as (url, process):
        out, err = process.communicate()
        assert (url, out) == ("", "")
        assert err.startswith(f"holdfast: {tmp_path / 'none'}: no such folder; name the one that your runs are in")
        assert err.count("\n") == 1
        assert process.returncode == 2


def test_a_port_that_is_taken_is_one_line(tmp_path, address):
    with holdfast_view(str(tmp_path), "--port", str(urlsplit(address).port)) as (_, process):
        _, err = process.communicate()
        assert "cannot listen on 127.0.0.1" in err
        assert process.returncode == 2


@pytest.mark.parametrize(
    ("model", "line"),
    [("tiny:alignd", "did you mean 'tiny:aligned'?"), ("EMPTY", "the folder has no config.json")],
)
def test_a_model_that_is_not_there_is_told_before_the_page_is_served(model, line, tmp_path):
    with holdfast_view(str(tmp_path), "--model", model.replace("EMPTY", str(tmp_path))) as (address, process):
        assert not address
        _, err = process.communicate()
    assert line in err
    assert err.count("\n") == 1
    assert process.returncode == 2


def test_two_that_start_together_do_not_share_a_port(tmp_path, monkeypatch):
    """Both may bind before either listens."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))

        class Later(socket.socket):
            def bind(self, address):
                super().bind(address)
                other.listen()

        monkeypatch.setattr(socket, "socket", Later)
        with pytest.raises(InputError, match="cannot listen on 127"):
            open_view(tmp_path, port=other.getsockname()[1], opens=False)


def test_a_page_that_leaves_while_it_asks_is_no_error(tmp_path):
    """It would be logged with a traceback."""
    headers = [(b"host", b"127.0.0.1:80"), (b"origin", b"http://127.0.0.1:80")]
    scope = {"type": "http", "method": "POST", "path": f"/{TOKEN}/chat", "query_string": b"", "headers": headers}
    receive, send = AsyncMock(return_value={"type": "http.disconnect"}), AsyncMock()
    run_async(make_view(tmp_path, TOKEN)({**scope, "server": ("127.0.0.1", 80)}, receive, send))
    assert send.call_args_list[0].args[0]["status"] == 499


def test_a_run_that_links_outside_is_not_read(tmp_path):
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"step": 1, "loss": 77.77}\n')
    root = tmp_path / "runs"
    for name in ("steps.jsonl", "config.yaml", "microscope.json", "cells", "timing.jsonl"):
        folder = write_training(root / name.partition(".")[0])
        (folder / name).unlink(missing_ok=True)
        os.symlink(tmp_path if name == "cells" else secret, folder / name)
    os.symlink(tmp_path, root / "whole")
    below = write_training(root / "below")
    (below / "inner").mkdir()
    os.symlink(secret, below / "inner" / "steps.jsonl")
    with serving(root) as url, httpx.stream("GET", url + "events") as stream:
        told = next(line for line in stream.iter_lines() if line.startswith("data: "))
        runs = json.loads(told[6:])["runs"]
        assert len(runs) == 7
        assert {run["name"] for run in runs if "leads out" not in run["reason"]} == set()
        for run in runs:
            assert run["state"] == "damaged"
            assert httpx.get(f"{url}runs/{run['id']}/report").status_code == 404
            assert httpx.get(f"{url}matrix/{run['id']}").status_code == 404
            assert "<svg" not in httpx.get(f"{url}charts?run={run['id']}").text
        assert "77" not in told


def test_a_model_of_a_run_reads_nothing_from_elsewhere(tmp_path, small_model):
    root = tmp_path / "runs"
    linked, adapter = write_training(root / "linked") / "model", write_training(root / "adapter") / "model"
    linked.mkdir()
    for path in small_model.iterdir():
        os.symlink(path, linked / path.name)
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(small_model)}))
    with serving(root) as url:
        origin = {"origin": f"http://{urlsplit(url).netloc}"}
        models = {model["name"]: model["id"] for model in httpx.get(url + "models").json()}
        for name, told in (("linked", "leads out of the folder"), ("adapter", "name it with --model")):
            ask = {"model": models[name], "messages": [{"role": "user", "content": "hello"}]}
            assert told in httpx.post(url + "chat", json=ask, headers=origin, timeout=60).text
