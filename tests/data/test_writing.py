import json
import os
import stat
import threading

import pytest

from holdfast.config import InputError
from holdfast.data import atomic_text, read_traces, write_traces
from holdfast.records import Role, Segment, Trace, Turn, answer, context

ASKED = context("user", "hi")
CHAT = Trace((context("system", ""), ASKED, answer("hello"), ASKED, answer("bye")))
UNDONE = Turn("assistant", (Segment(Role.ERROR, "5"), Segment(Role.UNDO), Segment(Role.CORRECTION, "4")))
DOCUMENT = Trace((Turn("text", (Segment(Role.RESPONSE, "once\u2028upon\r\na time"),)),))
OPEN_END = Turn("assistant", (Segment(Role.RESPONSE, "sure"), Segment(Role.PROMPT)))
BACKTRACK = Trace((ASKED, UNDONE))


@pytest.mark.parametrize(
    ("traces", "form"),
    [
        ([CHAT], "messages"),
        ([DOCUMENT, DOCUMENT], "text"),
        ([BACKTRACK], "trace"),
        ([Trace((ASKED, answer("hello"))), BACKTRACK], "trace"),
        ([Trace((context("user", " "), UNDONE))], "trace"),
        ([Trace((ASKED, answer("hello"))), Trace((ASKED, OPEN_END))], "trace"),
        ([Trace((ASKED, context("assistant", "hello"), ASKED, answer("bye")))], "trace"),
    ],
)
def test_what_is_written_reads_back(tmp_path, traces, form):
    path = tmp_path / "out.jsonl"
    write_traces(path, traces)
    data = read_traces(path)
    assert data.traces == tuple(traces)
    assert data.format == form
    assert "ignored" not in data.sentence


def test_the_trace_form_is_what_a_person_would_write(tmp_path):
    write_traces(str(tmp_path / "out.jsonl"), [BACKTRACK])
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {
        "prompt": "hi",
        "segments": [{"role": "error", "text": "5"}, {"role": "undo"}, {"role": "correction", "text": "4"}],
    }


@pytest.mark.parametrize(
    ("traces", "culprit"),
    [
        ([BACKTRACK, DOCUMENT], 1),
        ([Trace(())], 0),
        ([Trace((ASKED,))], 0),
        ([BACKTRACK, Trace((ASKED, UNDONE, ASKED, UNDONE))], 1),
        ([Trace((ASKED, Turn("assistant", (Segment(Role.ERROR, "5"),))))], 0),
        ([Trace((UNDONE,))], 0),
    ],
)
def test_traces_that_no_one_form_holds_are_refused_by_number(tmp_path, traces, culprit):
    with pytest.raises(ValueError, match=rf"traces\[{culprit}\] cannot be written"):
        write_traces(tmp_path / "out.jsonl", traces)
    assert list(tmp_path.iterdir()) == []


def test_no_traces_make_no_file(tmp_path):
    with pytest.raises(ValueError, match="no traces to write"):
        write_traces(tmp_path / "out.jsonl", [])
    assert list(tmp_path.iterdir()) == []


def interrupted_write(path):
    with atomic_text(path) as file:
        file.write("half a ")
        raise KeyboardInterrupt


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "out.jsonl"
    write_traces(path, [CHAT])
    before = path.read_bytes()
    with pytest.raises(UnicodeEncodeError):
        write_traces(path, [CHAT, Trace((ASKED, answer("\ud800")))])
    with pytest.raises(KeyboardInterrupt):
        interrupted_write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_whoever_is_reading_the_old_file_reads_it_to_the_end(tmp_path):
    path = tmp_path / "out.jsonl"
    write_traces(path, [CHAT] * 3)
    before = path.read_text(encoding="utf-8")
    with path.open(encoding="utf-8") as reader:
        write_traces(path, [BACKTRACK])
        assert reader.read() == before


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"out.jsonl: cannot be written: No such file or directory"):
        write_traces(tmp_path / "absent" / "out.jsonl", [CHAT])
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"out.jsonl: cannot be written: Not a directory"):
        write_traces(tmp_path / "file" / "out.jsonl", [CHAT])
    with pytest.raises(InputError, match=r"out.csv: expected a name that ends in .jsonl"):
        write_traces(tmp_path / "out.csv", [CHAT])


def test_a_pipe_stays_a_pipe(tmp_path):
    """Replacing it by a file would leave its reader waiting; as root, ``/dev/null`` would be gone."""
    path = tmp_path / "pipe.jsonl"
    os.mkfifo(path)
    read = []
    reader = threading.Thread(target=lambda: read.append(path.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    write_traces(path, [BACKTRACK])
    reader.join(10)
    assert json.loads(read[0])["prompt"] == "hi"
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert list(tmp_path.iterdir()) == [path]
