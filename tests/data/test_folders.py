"""Folders of shards, globs, and what `datasets` saves: read in order, each row with the file it stands in."""

import json
import sys

import pytest

from holdfast.config import InputError
from holdfast.data import DataError, read_traces


def shard(path, *texts):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def texts(data):
    return [trace.turns[0].visible for trace in data.traces]


@pytest.fixture
def shards(tmp_path):
    shard(tmp_path / "b.jsonl", "three")
    shard(tmp_path / "a.jsonl", "one", "two")
    (tmp_path / "README.md").write_text("about")
    (tmp_path / ".hidden.jsonl").write_text("{}\n")
    return tmp_path


def test_a_folder_of_shards_is_read_by_name_and_what_is_not_read_is_said(shards):
    data = read_traces(shards)
    assert texts(data) == ["one", "two", "three"]
    assert list(data.lines) == [1, 2, 1]
    assert [data.where(row) for row in range(3)] == [
        f"{shards}/a.jsonl:1",
        f"{shards}/a.jsonl:2",
        f"{shards}/b.jsonl:1",
    ]
    assert data.sentence.endswith("; from 2 files (a.jsonl, b.jsonl), not read: README.md")


def test_a_bad_row_names_its_own_file(shards):
    shard(shards / "c.jsonl", "four", "")
    with pytest.raises(DataError, match=r"c\.jsonl:2: field 'text': expected a non-empty string"):
        read_traces(str(shards))
    shard(shards / "c.jsonl", "four")
    (shards / "d.jsonl").write_text('{"messages": []}\n')
    with pytest.raises(DataError, match=r"'text' \(line .*a\.jsonl:1, .*\) and 'messages' \(line .*d\.jsonl:1\)"):
        read_traces(shards)


def test_a_glob_is_the_files_that_it_names(shards):
    shard(shards / "deep" / "c.jsonl", "four")
    assert texts(read_traces(f"{shards}/[ab].jsonl")) == ["one", "two", "three"]
    assert texts(read_traces(f"{shards}/**/*.jsonl")) == ["one", "two", "three", "four"]
    with pytest.raises(InputError, match=r"x\*\.jsonl: no file has such a name$"):
        read_traces(f"{shards}/x*.jsonl")
    with pytest.raises(InputError, match=r"expected names of .* files only, got .*README\.md$"):
        read_traces(f"{shards}/*")


def test_the_name_of_a_file_may_look_like_a_glob(tmp_path):
    shard(tmp_path / "a[1].jsonl", "one")
    assert texts(read_traces(f"{tmp_path}/a[1].jsonl")) == ["one"]


def test_splits_are_not_read_as_one(tmp_path):
    shard(tmp_path / "train-00000-of-00002.jsonl", "one")
    shard(tmp_path / "train-00001-of-00002.jsonl", "two")
    assert texts(read_traces(tmp_path)) == ["one", "two"]
    shard(tmp_path / "test-00000-of-00001.jsonl", "three")
    with pytest.raises(InputError, match=r"holds several splits: test, train; name one with a glob: '.*/test\*'$"):
        read_traces(tmp_path)
    assert texts(read_traces(f"{tmp_path}/train*")) == ["one", "two"]


def test_a_folder_without_data_or_of_two_kinds_is_refused(tmp_path):
    (tmp_path / "deep").mkdir()
    with pytest.raises(InputError, match=r"got none of them; it has folders: deep$"):
        read_traces(tmp_path)
    shard(tmp_path / "a.jsonl", "one")
    (tmp_path / "b.csv").write_text("text\ntwo\n")
    with pytest.raises(InputError, match=r"expected files of one kind, got \.csv and \.jsonl"):
        read_traces(tmp_path)


def test_a_limit_stops_in_the_middle_of_the_shards(shards):
    data = read_traces(shards, limit=2)
    assert texts(data) == ["one", "two"]
    assert data.sentence.endswith("later rows not read")


# --- save_to_disk ---------------------------------------------------------------------------------------------------


def test_a_saved_dataset_is_read(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = [{"text": "one"}, {"text": "two"}, {"text": ""}]
    datasets.Dataset.from_list(rows[:2]).save_to_disk(tmp_path / "saved")
    data = read_traces(tmp_path / "saved")
    assert (texts(data), list(data.lines), data.where(1)) == (["one", "two"], [1, 2], f"{tmp_path}/saved:2")
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "bad")
    with pytest.raises(DataError, match=r"/bad:3: field 'text': expected a non-empty string"):
        read_traces(str(tmp_path / "bad"))


def test_a_saved_dataset_of_splits_is_read_by_split(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    splits = {name: datasets.Dataset.from_list([{"text": name}]) for name in ("train", "test")}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "data" / "saved")
    monkeypatch.chdir(tmp_path)
    assert texts(read_traces("data/saved")) == ["train"]
    assert texts(read_traces("data/saved:test")) == ["test"]
    with pytest.raises(InputError, match=r"^data/saved:dev: expected one of its splits, data/saved:SPLIT; it has "):
        read_traces("data/saved:dev")


def test_nulls_that_arrow_put_between_messages_are_not_the_users(tmp_path):
    """Two rows of messages share one schema: the first comes back with tool calls of null."""
    datasets = pytest.importorskip("datasets")
    user, reply = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}
    call = {"function": {"name": "f", "arguments": {"a": 1}}}
    other = {"function": {"name": "g", "arguments": {"b": 2}}}
    calls = [{"role": "assistant", "content": None, "tool_calls": [each]} for each in (call, other)]
    rows = [{"messages": [user, reply]}, {"messages": [user, *calls, {"role": "tool", "content": "2"}, reply]}]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "saved")
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "rows.parquet")
    for source in (tmp_path / "saved", tmp_path / "rows.parquet"):
        data = read_traces(source)
        assert data.traces[0].turns[1].fields == ""
        arguments = [turn.other_fields["tool_calls"][0]["function"]["arguments"] for turn in data.traces[1].turns[1:3]]
        assert arguments == [{"a": 1}, {"b": 2}]


def test_without_datasets_the_extra_is_named(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_list([{"text": "one"}]).save_to_disk(tmp_path / "saved")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        InputError, match=r"/saved: a folder of `save_to_disk` needs .*: pip install 'holdfast\[data\]'$"
    ):
        read_traces(tmp_path / "saved")
    (tmp_path / "saved" / "state.json").write_text("{")
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"/saved: not readable as a saved dataset: "):
        read_traces(tmp_path / "saved")
