"""Under load with 10 % backend faults and 10 % judge faults: no unjudged answer, nothing hangs, memory stays."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from serve.processes import running, server
from serve.tagged_server import fault
from waiting import PATIENCE, run_async

JUDGE_FAULTS = 10  # percent
HUNG = PATIENCE  # seconds without an answer; the client raises
PROPER_ERRORS = {502, 503, 504}
SETTINGS = {"n": 2, "backend_seconds": 10.0, "judge_seconds": 6.0, "request_seconds": 600.0}


class Seen(NamedTuple):
    status: int
    text: str
    verdict: str


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024


async def one_client(address: str, num_requests: int, seen: list[Seen], memory: list[int], pid: int) -> None:
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(base_url=address, timeout=HUNG, limits=limits) as client:
        for number in range(num_requests):
            body = {"messages": [{"role": "user", "content": f"load {number}"}], "stream": number % 5 == 4}
            response = await client.post("/v1/chat/completions", json=body)
            verdict = response.headers.get("x-holdfast-verdict", "")
            text = "" if response.status_code != 200 else response.text
            seen.append(Seen(response.status_code, text, verdict))
            if len(seen) % 50 == 0:
                memory.append(resident_bytes(pid))


async def load(address: str, pid: int, num_clients: int, num_requests: int) -> tuple[list[Seen], list[int]]:
    seen: list[Seen] = []
    memory: list[int] = []
    await asyncio.gather(*(one_client(address, num_requests, seen, memory, pid) for _ in range(num_clients)))
    return seen, memory


def check_load(num_clients: int, num_requests: int) -> list[int]:
    with (
        running("fake_backend.py", "0.1") as (one, _),
        running("fake_backend.py", "0.1") as (two, _),
        server([one, two], settings=SETTINGS, judge_faults=JUDGE_FAULTS) as (address, process),
    ):
        seen, memory = run_async(load(address, process.pid, num_clients, num_requests))
        assert process.poll() is None
        assert "holdfast_in_flight 0.0" in httpx.get(f"{address}/metrics").text
    assert len(seen) == num_clients * num_requests  # every request came to an end
    outcomes = Counter((each.status, each.verdict) for each in seen)
    assert {status for status, _ in outcomes} <= {200} | PROPER_ERRORS, outcomes
    answers = [each.text for each in seen if each.verdict == "safe"]
    assert len(answers) > 0.6 * len(seen), outcomes
    assert not [text for text in answers if "[bad]" in text]
    assert not [text for text in answers if unjudged(text)]
    return memory


def unjudged(text: str) -> bool:
    """Whether this answer is one on which the judge failed: its hash decides."""
    begin = text.index("answer ")
    answer = text[begin : text.index("]", begin) + 1]
    return fault(answer, JUDGE_FAULTS) is not None


def test_sixty_clients() -> None:
    check_load(60, 10)


@pytest.mark.slow
def test_five_hundred_clients_and_memory_stays() -> None:
    """Resident memory of the last quarter at most 5 % above that of the first."""
    memory = check_load(500, 20)
    quarter = len(memory) // 4
    first, last = sorted(memory[:quarter])[quarter // 2], sorted(memory[-quarter:])[quarter // 2]
    assert last <= 1.05 * first, f"{first / 2**20:.1f} MiB -> {last / 2**20:.1f} MiB"
