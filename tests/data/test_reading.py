"""Whole files: what is reported, what is skipped, what is said."""

import gzip
import json
import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest

from holdfast.config import InputError
from holdfast.data import DataError, fingerprint, read_rows, read_traces
from holdfast.records import Trace, answer, context

GOOD = b'{"prompt": "a", "completion": "b"}\n'
BAD = b'{"prompt": "a", "completion": 3}\n'


@pytest.fixture
def put(tmp_path):
    def write(data, name="data.jsonl"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def test_a_dataset_says_what_it_is(put):
    path = put(GOOD * 2)
    data = read_traces(path)
    assert data.traces == (Trace((context("user", "a"), answer("b"))),) * 2
    assert list(data.lines) == [1, 2]
    assert data.source == str(path)
    assert data.sentence.startswith(f"{path}: 2 rows in the 'prompt-completion' format: each row is a user and")
    assert (data.num_skipped, data.problems) == (0, ())
    with pytest.raises(FrozenInstanceError):
        data.source = "elsewhere"


def test_every_bad_line_is_reported_in_order_whatever_is_wrong_with_it(put):
    path = put(BAD + GOOD + b"{\n" + GOOD + BAD)
    with pytest.raises(DataError) as caught:
        read_traces(path)
    assert isinstance(caught.value, InputError)
    assert str(caught.value).splitlines() == [
        f"{path}:1: field 'completion': expected a non-empty string, got a number",
        f"{path}:3: expected one JSON object on this line, got only the beginning of one; write every row on a line of"
        " its own",
        f"{path}:5: field 'completion': expected a non-empty string, got a number",
    ]


def test_up_to_skip_bad_lines_are_skipped_and_counted(put):
    path = put(BAD + GOOD + b"{\n" + GOOD + b"\n")
    for allowed in (0, 1):
        with pytest.raises(DataError):
            read_traces(path, skip_bad=allowed)
    data = read_traces(path, skip_bad=2)
    assert list(data.lines) == [2, 4]
    assert data.num_skipped == 2
    assert [problem.line for problem in data.problems] == [1, 3]
    assert data.sentence.endswith("; 1 blank line passed over; 2 bad lines skipped")


def test_the_message_is_capped_but_the_problems_are_not(put):
    cut = b"".join(b'{"prompt": "' + b"a" * number + b'"\n' for number in range(173))  # each breaks off elsewhere
    with pytest.raises(DataError) as caught:
        read_traces(put(GOOD + cut))
    assert len(caught.value.problems) == 173
    lines = str(caught.value).splitlines()
    assert len(lines) == 51
    assert lines[-1] == "... and 123 more"


def test_what_is_wrong_with_many_rows_is_said_once(put):
    complaint = "field 'completion': expected a non-empty string, got a number"
    path = put(BAD * 3)
    with pytest.raises(DataError) as caught:
        read_traces(path)
    assert str(caught.value).splitlines()[:3] == [f"{path}:{line}: {complaint}" for line in (1, 2, 3)]
    path = put(BAD * 2 + b"3\n" + BAD * 2)
    with pytest.raises(DataError) as caught:
        read_traces(path)
    assert str(caught.value).splitlines()[:2] == [
        f"{path}:1: {complaint}; the same in lines 2, 4, 5",
        f"{path}:3: expected a JSON object, got a number",
    ]
    with pytest.raises(DataError) as caught:
        read_traces(put(BAD * 60))
    assert str(caught.value).splitlines()[0].endswith(", 48, 49, 50 and 10 more")


@pytest.mark.parametrize(
    ("name", "data", "got"),
    [
        ("a.jsonl", b"", "none$"),
        ("a.jsonl", b"\xef\xbb\xbf\r\n\r\n", "only blank lines"),
        ("a.json", b"[]", "none$"),
        ("a.csv", b"text\n", "none$"),
        ("a.jsonl.gz", gzip.compress(b"", mtime=0), "none$"),
        ("a.jsonl", b"{\n[]\n", "none that is good"),
        ("a.jsonl", BAD, "none that is good"),
    ],
)
def test_no_good_row_at_all_is_an_error_whatever_may_be_skipped(put, name, data, got):
    with pytest.raises(DataError, match=f"expected at least one row, got {got}"):
        read_traces(put(data, name), skip_bad=99)


def test_a_fatal_problem_is_not_skipped_and_the_bad_lines_before_it_are_still_reported(put):
    path = put(b'[{"text": "a"},\n{"text": 1},\n{"text": "b"}', "a.json")
    with pytest.raises(DataError) as caught:
        read_traces(path, skip_bad=99)
    assert [problem.line for problem in caught.value.problems] == [2, 3]


def test_limit_reads_the_first_rows_good_or_bad_and_says_so(put):
    path = put(GOOD + b"\n" + BAD + GOOD + b"not JSON, never seen\n")
    data = read_traces(path, limit=3, skip_bad=1)
    assert list(data.lines) == [1, 4]
    assert data.num_skipped == 1
    assert data.sentence.endswith("; later rows not read")
    assert "later rows" not in read_traces(put(GOOD * 3), limit=3).sentence
    assert list(read_traces(put(b"not JSON\n" + GOOD * 3), limit=2, skip_bad=1).lines) == [2]


def test_the_fingerprint_is_of_the_content_not_of_the_file(put):
    rows = [{"prompt": "2+2?", "completion": "vier ü"}, {"prompt": "b\nc", "completion": "d, e"}]
    sources = [
        put("".join(json.dumps(row) + "\n" for row in rows).encode()),
        put(json.dumps([{**row, "id": 1} for row in rows], indent=2, ensure_ascii=False).encode(), "a.json"),
        put('prompt,completion\n2+2?,vier ü\n"b\nc","d, e"\n'.encode(), "a.csv"),
    ]
    prints = {read_traces(source).fingerprint for source in sources}
    assert len(prints) == 1
    assert fingerprint(read_traces(sources[0]).traces) in prints
    assert fingerprint(reversed(read_traces(sources[0]).traces)) not in prints


def test_the_fingerprint_is_stable():
    """sha256 of '[["user",[["prompt","a"]]],["assistant",[["response","b"]]]]' and a line feed, worked by sha256sum."""
    expected = "ea546bb4eeeb6eecd70cd7eed7dcac7aba519ddb07bd02415592dfae4c17637a"
    assert fingerprint([Trace((context("user", "a"), answer("b")))]) == expected


def test_the_fingerprint_tells_where_one_segment_ends():
    one = Trace((context("user", "ab"), answer("c")))
    other = Trace((context("user", "a"), answer("bc")))
    assert fingerprint([one]) != fingerprint([other])


def test_reading_json_lines_loads_no_heavy_library(put):
    heavy = "{'torch', 'transformers', 'numpy', 'pyarrow', 'datasets'}"
    code = f"import sys, holdfast.data as d; d.read_traces(sys.argv[1]); assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code, str(put(GOOD))], check=True)


def test_an_empty_name_is_not_the_working_folder(tmp_path, monkeypatch):
    """As a script's unset variable gives it."""
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="got an empty text"):
        read_traces("")


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"^.*absent\.jsonl: no such file$"):
        read_traces(str(tmp_path / "absent.jsonl"))


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"text": "half \ud800"}, "text"),
        ({"text": "a", "meta": [{"k": "\ud800"}]}, "meta"),
        ({"text": "a", "\ud800": 1}, "\\ud800"),
    ],
)
def test_rows_in_memory_that_no_file_could_hold_are_refused_by_field(row, field):
    with pytest.raises(DataError) as caught:
        read_rows([{"text": "good"}, row])
    [problem] = caught.value.problems
    assert (problem.source, problem.line, problem.field) == ("memory", 2, field)
    assert "lone surrogate" in problem.message
    assert len(read_rows([{"text": "good"}, row], skip_bad=1).traces) == 1
