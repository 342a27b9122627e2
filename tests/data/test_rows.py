"""Every kind of file, and every way in which it can be damaged."""

import gzip
import json
import sys

import pytest

from holdfast.config import InputError
from holdfast.data import DataError, read_traces
from holdfast.data.problems import Problem
from holdfast.data.rows import Row, file_rows

GOOD = [{"text": "one"}, {"text": "zwei ü"}, {"text": "三"}]
LINES = [json.dumps(row, ensure_ascii=False).encode() for row in GOOD]


def rows(path):
    return list(file_rows(path))


def good(path):
    return [(row.line, row.fields) for row in file_rows(path) if isinstance(row, Row)]


def problems(path):
    return [item for item in file_rows(path) if isinstance(item, Problem)]


@pytest.fixture
def put(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


def parquet_bytes(table):
    import pyarrow
    import pyarrow.parquet

    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def encodings():
    import pyarrow

    pretty = json.dumps(GOOD, indent=1, ensure_ascii=False).encode()
    yield ".jsonl", b"\n".join(LINES), [1, 2, 3]
    yield ".json", pretty, [2, 5, 8]
    yield ".json", b"[" + b",".join(LINES) + b"]\n", [1, 1, 1]
    yield ".json", b"\n".join(LINES), [1, 2, 3]
    yield ".csv", "text\none\nzwei ü\n三\n".encode(), [2, 3, 4]
    yield ".parquet", parquet_bytes(pyarrow.Table.from_pylist(GOOD)), [1, 2, 3]


@pytest.mark.parametrize("packed", ["", ".gz", ".GZ"])
@pytest.mark.parametrize(("suffix", "data", "lines"), list(encodings()))
def test_every_kind_of_file_gives_the_same_rows_with_their_lines(tmp_path, suffix, data, lines, packed):
    path = tmp_path / f"data{suffix}{packed}"
    path.write_bytes(gzip.compress(data) if packed else data)
    assert good(path) == list(zip(lines, GOOD, strict=True))
    assert len(rows(path)) == 3


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv"])
def test_a_bom_and_crlf_are_no_part_of_the_text(put, name):
    body = ["text", "one", "two"] if name == "a.csv" else [json.dumps({"text": "one"}), json.dumps({"text": "two"})]
    path = put(name, b"\xef\xbb\xbf" + "\r\n".join(body).encode() + b"\r\n")
    assert [fields for _, fields in good(path)] == [{"text": "one"}, {"text": "two"}]


def test_a_bom_before_a_json_list(put):
    assert good(put("a.json", b'\xef\xbb\xbf \r\n[{"text": "one"}]')) == [(2, {"text": "one"})]


def test_utf16_is_named_once_and_not_once_per_line(put):
    [problem] = rows(put("a.jsonl", '{"text": "one"}\n{"text": "two"}\n'.encode("utf-16")))
    assert problem.fatal
    assert "got UTF-16" in str(problem)


def test_only_a_line_feed_ends_a_line(put):
    text = "a\u2028b\u2029c\x85d\x0be"
    assert good(put("a.jsonl", json.dumps({"text": text}, ensure_ascii=False).encode())) == [(1, {"text": text})]
    assert good(put("a.csv", f"text\n{text}\n".encode())) == [(2, {"text": text})]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_blank_lines_hold_no_row_but_count_as_lines(put, name):
    path = put(name, b'\n{"text": "one"}\n \t\r\n{"text": "two"}\n\n')
    assert [row.line for row in rows(path) if row.fields is None] == [1, 3, 5]
    assert [line for line, _ in good(path) if _ is not None] == [2, 4]


def test_blank_lines_of_a_csv_file(put):
    path = put("a.csv", b"\ntext\none\n\ntwo\n")
    assert rows(path) == [Row(1, None), Row(3, {"text": "one"}), Row(4, None), Row(5, {"text": "two"})]


@pytest.mark.parametrize(
    ("line", "field", "message"),
    [
        (b'{"text": "a", "text": "b"}', "text", "expected one value, got a duplicate key"),
        (b'{"text": "a", "meta": {"k": 1, "k": 1}}', "k", "expected one value, got a duplicate key"),
        (b'{"text": "a", "score": NaN}', "score", "got NaN or an infinite one"),
        (b'{"text": "a", "score": [-Infinity]}', "score", "got NaN or an infinite one"),
        (b'{"text": "a", "score": 1e999}', "score", "got NaN or an infinite one"),
        (b'{"text": "\\ud800 alone"}', "text", "got a lone surrogate"),
        (b'{"text": "\\uDC00\\uD800"}', "text", "got a lone surrogate"),
        (b'{"text": "a", "\\udfff": 1}', "\\udfff", "got a lone surrogate"),
        (b'{"text": "\xff"}', None, "expected UTF-8 text, got byte 0xff"),
        (b'{"text": "\xed\xa0\x80"}', None, "expected UTF-8 text, got byte 0xed"),
        (b'{"text": "a"', None, "expected one JSON object on this line, got: Expecting ',' delimiter (column 13)"),
        (b'{"text": "a"} {"text": "b"}', None, "got: more text after it (column 14)"),
        (b'["text"]', None, "expected a JSON object, got a list"),
        (b'"text"', None, "expected a JSON object, got a string"),
        (b"null", None, "expected a JSON object, got null"),
        (b"true", None, "expected a JSON object, got a boolean"),
        (b"12", None, "expected a JSON object, got a number"),
        (b"[" * 200_000, None, "nested too deeply"),
        (b'{"text": ' + b"9" * 5000 + b"}", None, "expected one JSON object on this line"),
    ],
)
def test_a_bad_json_line_is_reported_with_its_field_and_the_lines_around_it_are_read(put, line, field, message):
    path = put("a.jsonl", LINES[0] + b"\n" + line + b"\n" + LINES[2])
    assert good(path) == [(1, GOOD[0]), (3, GOOD[2])]
    [problem] = problems(path)
    assert (problem.line, problem.field, problem.fatal) == (2, field, False)
    assert message in problem.message


def test_an_escaped_pair_of_surrogates_is_one_character(put):
    assert good(put("a.jsonl", b'{"text": "\\ud83d\\ude00 \\u00e9"}')) == [(1, {"text": "\U0001f600 é"})]


@pytest.mark.parametrize("item", [b'{"text": "a", "text": "b"}', b'{"text": NaN}', b'{"text": "\\ud800"}', b'"text"'])
def test_a_bad_item_of_a_json_list_leaves_the_next_one_readable(put, item):
    path = put("a.json", b"[\n" + LINES[0] + b",\n" + item + b",\n" + LINES[2] + b"\n]")
    assert good(path) == [(2, GOOD[0]), (4, GOOD[2])]
    assert [(problem.line, problem.fatal) for problem in problems(path)] == [(3, False)]


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b'[\n{"text": "a"},\n{"text" "b"}]', 3, "Expecting ':' delimiter (column 9)"),
        (b'[\n{"text":\n"a\nb"},\n]', 3, "Invalid control character (column 3)"),
        (b'[\n{"text": "a"},\n]', 3, "Expecting value (column 1)"),
        (b'[\n{"text": "a"}', 2, "neither ',' nor ']' after an item (column 14)"),
        (b'[\n{"text": "a"}\n{"text": "b"}]', 3, "neither ',' nor ']' after an item (column 1)"),
        (b'[\n{"text": "a"}]\n[1]', 3, "more text after it (column 1)"),
        (b'[\n{"text": "\xff"}]', 2, "expected UTF-8 text, got byte 0xff"),
        (b"[" * 200_000, 1, "nested too deeply"),
        (b"[", 1, "Expecting value"),
    ],
)
def test_a_json_list_that_breaks_off_is_fatal(put, data, line, message):
    [problem] = problems(put("a.json", data))
    assert (problem.line, problem.fatal) == (line, True)
    assert message in problem.message


def test_one_json_object_may_have_several_lines(put):
    assert rows(put("a.json", b'{\n "text": "a",\n "tags": []\n}\n')) == [Row(1, {"text": "a", "tags": []})]


@pytest.mark.parametrize(
    ("name", "data", "got"),
    [
        ("a.jsonl", b'[\n{"text": "a"}\n]', "the beginning of a list; name the file .json if it is one list of rows"),
        ("a.jsonl", b'{\n"text": "a"\n}', "only the beginning of one; write every row on a line of its own"),
        ("a.json", b'{\n"text": "a"\n}\n{\n"text": "b"\n}', "only the beginning of one; write every row on a line of"),
        ("a.jsonl", b'[{"text": "a"}]', "a list; name the file .json if it is one list of rows"),
    ],
)
def test_json_that_is_not_one_object_to_a_line_says_what_to_do(put, name, data, got):
    problem = problems(put(name, data))[0]
    assert problem.line == 1
    assert f", got {got}" in problem.message


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.jsonl.gz"])
@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_has_no_rows(put, name, data):
    assert [row for row in rows(put(name, data)) if row != Row(1, None)] == []


def test_a_json_list_with_nothing_in_it_has_no_rows(put):
    assert rows(put("a.json", b" [ \n ] \n")) == []


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.json.gz", "a.csv.gz", "a.parquet.gz"])
def test_a_gzip_file_that_is_cut_short_is_fatal(tmp_path, name):
    path = tmp_path / name
    noise = "".join(chr(33 + i * i % 90) for i in range(5000))
    path.write_bytes(gzip.compress(json.dumps({"text": noise}).encode())[:-9])
    [problem] = [item for item in rows(path) if isinstance(item, Problem) and "cut short" in item.message]
    assert problem.fatal
    with pytest.raises(DataError, match="cut short"):
        read_traces(path, skip_bad=1000)


@pytest.mark.parametrize("data", [b"not gzip at all", b"\x1f\x8b\x08\x00" + b"\x00" * 6 + b"\xff" * 40])
def test_what_is_not_gzip_is_fatal(tmp_path, data):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(data)
    [problem] = rows(path)
    assert problem.fatal
    assert "expected a readable file" in problem.message


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "list.json"])
def test_a_line_of_50_mb_is_read(tmp_path, name):
    """In seconds. Reading it piece by piece from its beginning would take days."""
    text = "holdfast é " * (50 * 2**20 // 12)
    row = json.dumps({"text": text}, ensure_ascii=False)
    body = {"a.csv": f"text\n{text}\n", "list.json": f"[{row}]"}.get(name, row).encode()
    assert len(body) > 50_000_000
    path = tmp_path / name
    path.write_bytes(body)
    dataset = read_traces(path)
    assert dataset.traces[0].turns[0].visible == text


@pytest.mark.parametrize(("sign", "name"), [(b";", "semicolons"), (b"\t", "tabs")])
def test_a_csv_file_with_other_separators_is_told_what_to_use(put, sign, name):
    [problem] = problems(put("a.csv", sign.join([b"prompt", b"completion\na", b"b, c\nd", b"e\n"])))
    assert (problem.line, problem.fatal) == (1, True)
    assert problem.message == f"expected columns separated by commas, got {name}"


def test_csv_rows_may_span_lines_and_are_counted_from_their_first(put):
    path = put("a.csv", b'prompt,completion\r\n"a\nb","say ""hi"""\r\nc,d\r\n')
    assert good(path) == [(2, {"prompt": "a\nb", "completion": 'say "hi"'}), (4, {"prompt": "c", "completion": "d"})]


@pytest.mark.parametrize(
    ("line", "field", "message"),
    [
        (b"only one", None, "expected 2 columns as in the header, got 1"),
        (b"a,b,c", None, "expected 2 columns as in the header, got 3"),
        (b"a,\xffb", "completion", "expected UTF-8 text"),
        (b'"a"b,c', None, "expected comma-separated values"),
        (b"a\rb,c", None, "expected comma-separated values"),
    ],
)
def test_a_bad_csv_line_is_reported_and_the_next_one_is_read(put, line, field, message):
    path = put("a.csv", b"prompt,completion\n" + line + b"\nc,d\n")
    assert good(path) == [(3, {"prompt": "c", "completion": "d"})]
    [problem] = problems(path)
    assert (problem.line, problem.field, problem.fatal) == (2, field, False)
    assert message in problem.message


@pytest.mark.parametrize("tail", [b"", b'fo"ur\nfive\n'])
def test_a_csv_quote_that_never_closes_is_reported_where_it_opened_and_hides_no_row(put, tail):
    problem, *_ = problems(put("a.csv", b'text\none\n"two\nthree\n' + tail))
    assert (problem.line, problem.fatal) == (3, True)
    [problem] = problems(put("a.csv", b'text\none\n"two'))
    assert (problem.line, problem.fatal) == (3, False)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"text,text", "field 'text': expected one column of this name, got several"),
        (b"te\xffxt,id", "expected a header in UTF-8"),
        (b'"text"x', "expected comma-separated values"),
    ],
)
def test_a_bad_csv_header_is_fatal(put, header, message):
    problem = problems(put("a.csv", header + b"\na,b\n"))[0]
    assert (problem.line, problem.fatal) == (1, True)
    assert message in str(problem)


def test_parquet_that_is_damaged_is_fatal(put):
    import pyarrow

    whole = parquet_bytes(pyarrow.Table.from_pylist(GOOD))
    for data in (b"", b"PAR1", whole[:-20], b"\0" * 100):
        [problem] = rows(put("a.parquet", data))
        assert problem.fatal
        assert "expected a parquet file" in problem.message


def test_parquet_text_that_is_not_utf8_is_fatal(put):
    import pyarrow

    offsets = pyarrow.py_buffer((0).to_bytes(4, "little") + (2).to_bytes(4, "little"))
    bad = pyarrow.Array.from_buffers(pyarrow.string(), 1, [None, offsets, pyarrow.py_buffer(b"\xff\xfe")])
    [problem] = rows(put("a.parquet", parquet_bytes(pyarrow.table({"text": bad}))))
    assert problem.fatal


def test_parquet_columns_of_one_name_are_fatal(put):
    import pyarrow

    table = pyarrow.Table.from_arrays([pyarrow.array(["a"]), pyarrow.array(["b"])], names=["text", "text"])
    assert any(
        problem.fatal and problem.field == "text" for problem in problems(put("a.parquet", parquet_bytes(table)))
    )


def test_parquet_without_pyarrow_names_the_extra(put, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r'a parquet file needs pyarrow: pip install "holdfast\[data\]"'):
        rows(put("a.parquet", b"PAR1"))


def test_names_that_are_no_data_file(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"notes.txt: expected a file named .jsonl, .json, .csv, .parquet"):
        rows(tmp_path / "notes.txt")
    (tmp_path / "rows.tsv").write_text("text\nhello\n")
    with pytest.raises(InputError, match=r"rows.tsv: .*; save it with commas, as .csv$"):
        rows(tmp_path / "rows.tsv")
    with pytest.raises(InputError, match=r"missing.jsonl: no such file"):
        rows(tmp_path / "missing.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    [problem] = rows(tmp_path / "folder.jsonl")
    assert "Is a directory" in problem.message
