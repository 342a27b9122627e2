"""Many records in little memory: read back as they were, from memory and from disk, in forked processes too."""

import gc
import json
import multiprocessing
import os
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from holdfast.config import InputError
from holdfast.data import read_traces, spool
from holdfast.data.spool import Spool
from holdfast.data.stored_traces import StoredTraces, fingerprint
from holdfast.records import Role, Segment, Trace, Turn, answer, context
from holdfast.records.traces import setup

RECORDS = [bytes([number % 251]) * (number % 40) for number in range(500)]
TRACES = [
    Trace((context("system", 'é\n"\\ 你'), context("user", ""), answer("yes", fields={"reasoning_content": "so"}))),
    Trace((setup({"tools": [{"name": "add"}]}), context("user", "q"), answer("a"))),
    Trace((Turn("text", (Segment(Role.RESPONSE, "once"),)),)),
    Trace((context("user", "q"), Turn("assistant", tuple(Segment(role, "x") for role in Role)))),
]


@pytest.fixture(params=[1, 1000, spool.HELD_BYTES])
def held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Every record in the file; the last ones not yet; none."""
    monkeypatch.setattr(spool, "HELD_BYTES", request.param)
    return int(request.param)


def filled() -> Spool:
    made = Spool()
    for record in RECORDS:
        made.append(record)
    return made


def test_records_come_back_in_any_order(held: int) -> None:
    made = filled()
    assert len(made) == len(RECORDS)
    assert [made.read(number) for number in reversed(range(500))] == RECORDS[::-1]
    made.append(b"one more")
    assert (made.read(500), made.read(0), made.read(499)) == (b"one more", RECORDS[0], RECORDS[499])


def _read_often(made: Spool) -> None:
    wrong = sum(made.read(number) != RECORDS[number] for _ in range(20) for number in range(500))
    os._exit(wrong > 0)


def test_processes_that_share_the_file_do_not_move_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "HELD_BYTES", 1)
    made = filled()
    started = [multiprocessing.get_context("fork").Process(target=_read_often, args=(made,)) for _ in range(3)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0, 0, 0]


def test_the_file_has_no_name_and_is_closed_with_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[IO[bytes]] = []

    def opening(make: Callable[..., IO[bytes]] = tempfile.TemporaryFile) -> IO[bytes]:
        opened.append(make(dir=tmp_path))
        return opened[-1]

    monkeypatch.setattr(spool, "HELD_BYTES", 1)
    monkeypatch.setattr(tempfile, "TemporaryFile", opening)
    made = filled()
    assert os.fstat(opened[0].fileno()).st_size == sum(map(len, RECORDS))
    assert list(tmp_path.iterdir()) == []
    assert not opened[0].closed
    del made
    gc.collect()
    assert opened[0].closed


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "HELD_BYTES", 1)
    with Path("/dev/full").open("r+b", buffering=0) as full:
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda: full)
        with pytest.raises(InputError, match=r"rows cannot be kept there: No space left on device; .* set TMPDIR"):
            filled()


def test_traces_come_back_as_they_were(held: int) -> None:
    stored = StoredTraces()
    for trace in TRACES:
        stored.append(trace)
    assert stored == TRACES
    assert stored != TRACES[::-1]
    assert stored[1:3] == tuple(TRACES[1:3])
    assert stored[-1] == TRACES[-1]
    assert stored.fingerprint == fingerprint(TRACES)
    with pytest.raises(IndexError):
        stored[len(TRACES)]


def test_a_file_takes_a_few_bytes_of_memory_for_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "HELD_BYTES", 2**12)
    path, num_rows = tmp_path / "rows.jsonl", 4000
    with path.open("w") as file:
        for number in range(num_rows):
            file.write(json.dumps({"prompt": f"what is {number} ?", "completion": f"it is {number} . " * 10}) + "\n")
    read_traces(path, limit=10)
    tracemalloc.start()
    try:
        dataset = read_traces(path)
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(dataset.traces) == num_rows
    assert kept / num_rows < 32  # where its record ends, and its line: 8 bytes each
    assert most / num_rows < 64
    assert dataset.traces[3999].turns[0].visible == "what is 3999 ?"
    assert dataset.where(3999) == f"{path}:4000"
