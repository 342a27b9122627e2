"""`inspect view`, the real one, shows an audit that `holdfast tasks inspect-log` wrote."""

import json
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from peers.conftest import PEERS, environment, holdfast
from waiting import PATIENCE, wait_for

pytestmark = pytest.mark.skipif(not PEERS.with_name("inspect").exists(), reason="inspect is not installed: make peers")


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    hf.audit("tiny:aligned", limit=5, max_new_tokens=12, out=folder / "audit", keep_answers=True, say=lambda _: None)
    holdfast("tasks", "inspect-log", "audit", "logs/audit.eval", folder=folder, python=PEERS)
    return folder


@pytest.fixture(scope="module")
def address(audit: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(PEERS.with_name("inspect")), "view", "--log-dir", str(audit / "logs"), "--port", str(port)]
    said = (audit / "view.txt").open("w")
    server = subprocess.Popen(command, env=environment(command[0]), stdout=said, stderr=said, cwd=audit)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(lambda: answers(address))
        yield address
    finally:
        server.terminate()
        server.wait()


def answers(address: str) -> bool:
    try:
        return urllib.request.urlopen(address, timeout=5).status == 200
    except OSError:
        return False


def test_inspect_view_shows_the_audit(browser: Any, address: str, audit: Path) -> None:
    lines = [json.loads(line) for line in (audit / "audit" / "completions.jsonl").read_text().splitlines()]
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.set_default_timeout(PATIENCE * 1000)
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.goto(address)
    page.get_by_text("holdfast_audit").first.click()
    page.get_by_text(lines[0]["request"]).first.wait_for()
    shown = page.locator("body").inner_text()
    assert "tiny:aligned" in shown
    assert "complied (world)" in shown
    page.get_by_text(lines[0]["request"]).first.click()
    page.get_by_text(lines[0]["answer"]).first.wait_for()
    assert failures == []
