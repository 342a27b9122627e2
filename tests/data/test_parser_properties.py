"""What holds for any traces and any bytes, not only for those we thought of."""

import csv
import gzip
import io
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.data import DataError, Dataset, read_traces, write_traces
from holdfast.data.strict_json import NotJSON, StrictDecoder
from holdfast.records import Role, Segment, Trace, Turn, answer, context

quick = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
some_text = any_text.filter(bool)
filled_text = any_text.filter(str.strip)

contexts = st.builds(context, st.sampled_from(["system", "user", "assistant", "tool"]), any_text)
others = st.builds(context, st.sampled_from(["system", "user", "tool"]), any_text)
plain_roles = st.sampled_from([role for role in Role if role not in (Role.PROMPT, Role.ERROR, Role.UNDO)])
spans = st.one_of(
    st.builds(lambda role, text: (Segment(role, text),), plain_roles, some_text),
    st.builds(lambda text: (Segment(Role.ERROR, text), Segment(Role.UNDO)), some_text),
)
answers = st.lists(spans, min_size=1, max_size=4).map(lambda parts: Turn("assistant", sum(parts, ())))

documents = st.builds(lambda text: Trace((Turn("text", (Segment(Role.RESPONSE, text),)),)), filled_text)
backtracks = st.builds(lambda before, last: Trace((*before, last)), st.lists(contexts, min_size=1, max_size=3), answers)
chats = st.builds(
    lambda first, turns: Trace((first, *turns)),
    others,
    st.lists(st.one_of(others, st.builds(answer, filled_text)), min_size=1, max_size=4),
)
chats = chats.filter(lambda trace: any(turn.is_target for turn in trace.turns))


@quick
@given(traces=st.one_of(st.lists(kind, min_size=1, max_size=4) for kind in (documents, backtracks, chats)))
def test_any_traces_written_and_read_are_the_same(tmp_path, traces):
    path = tmp_path / "out.jsonl"
    write_traces(path, traces)
    data = read_traces(path)
    assert data.traces == tuple(traces)
    assert list(data.lines) == list(range(1, len(traces) + 1))
    assert data.num_skipped == 0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(["messages", "prompt", "completion", "text", "instruction", "output", "segments", "id"])
items = st.fixed_dictionaries({}, optional={"role": any_text | st.just("assistant"), "content": any_text | json_values})
odd_rows = st.dictionaries(keys, st.one_of(any_text, st.lists(items, max_size=3), json_values), max_size=4)
odd_lines = st.lists(st.one_of(odd_rows, json_values).map(lambda row: json.dumps(row).encode()), max_size=4)
garbage = st.one_of(
    st.binary(max_size=200),
    odd_lines.map(b"\n".join),
    odd_lines.map(lambda lines: b"[" + b",".join(lines) + b"]"),
    st.lists(
        st.sampled_from([b"[", b"]", b"{", b"}", b'"', b",", b":", b"\n", b"text", b"1", b"\xff", b"\\ud800"])
    ).map(b"".join),
)


@settings(quick, max_examples=200)
@given(
    data=garbage,
    suffix=st.sampled_from([".jsonl", ".json", ".csv", ".parquet"]),
    packed=st.booleans(),
    cut=st.integers(0, 30),
)
def test_any_bytes_give_a_dataset_or_a_data_error(tmp_path, data, suffix, packed, cut):
    path = tmp_path / f"odd{suffix}{'.gz' if packed else ''}"
    whole = gzip.compress(data) if packed else data
    path.write_bytes(whole[: len(whole) - cut])
    try:
        outcome: Dataset | DataError = read_traces(path, skip_bad=2)
    except DataError as error:
        outcome = error
    if isinstance(outcome, DataError):
        assert len(outcome.problems) >= 1
        assert str(outcome).encode()  # it can be printed
    else:
        assert len(outcome.traces) == len(outcome.lines) >= 1
        assert outcome.sentence.encode()


good_or_bad = st.sampled_from(
    [
        (b'{"text": "a"}', "good"),
        (b"", "blank"),
        (b"{", "bad"),
        (b'{"text": 1}', "bad"),
        (b'{"text":NaN}', "bad"),
        (b"[]", "bad"),
    ]
)


@quick
@given(lines=st.lists(good_or_bad, max_size=12), newline=st.sampled_from([b"\n", b"\r\n"]))
def test_every_line_is_accounted_for_under_its_own_number(tmp_path, lines, newline):
    path = tmp_path / "some.jsonl"
    path.write_bytes(newline.join([line for line, _ in lines] + [b'{"text": "last"}']))
    data = read_traces(path, skip_bad=len(lines))
    numbered = list(enumerate([kind for _, kind in lines] + ["good"], start=1))
    assert list(data.lines) == [number for number, kind in numbered if kind == "good"]
    assert [problem.line for problem in data.problems] == [number for number, kind in numbered if kind == "bad"]


@quick
@given(rows=st.lists(st.tuples(filled_text, filled_text), min_size=1, max_size=5))
def test_any_cells_survive_csv(tmp_path, rows):
    sheet = io.StringIO(newline="")
    writer = csv.writer(sheet, quoting=csv.QUOTE_ALL)
    writer.writerows([("prompt", "completion"), *rows])
    path = tmp_path / "sheet.csv"
    path.write_bytes(sheet.getvalue().encode())
    data = read_traces(path)
    assert [tuple(turn.visible for turn in trace.turns) for trace in data.traces] == rows


@quick
@given(value=json_values.filter(lambda value: "NaN" not in json.dumps(value) and "Infinity" not in json.dumps(value)))
def test_the_strict_decoder_agrees_with_the_standard_one_on_json(value):
    text = json.dumps(value)
    parsed = StrictDecoder().parse(text)
    assert parsed == (json.loads(text), len(text), None)


@quick
@given(text=any_text)
def test_the_strict_decoder_refuses_what_the_standard_one_does(text):
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        end = None
    try:
        assert StrictDecoder().parse(text).end == end
    except NotJSON:
        assert end is None
