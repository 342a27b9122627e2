"""Hub names. `datasets` reads a folder as it reads a repository of the hub: the real one is used, without a network."""

import json
import sys

import pytest

from holdfast.config import InputError
from holdfast.data import DataError, read_traces
from holdfast.data.hub import is_hub_name

ROWS = [{"text": "one", "id": 1}, {"text": "two", "id": 2}]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder ``ann/poems`` with two splits, seen from beside it."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "ann" / "poems"
    folder.mkdir(parents=True)
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (folder / "test.jsonl").write_text(json.dumps({"text": ""}) + "\n")
    return tmp_path


def test_a_hub_dataset_is_read_by_split(hub):
    data = read_traces("hf:ann/poems")
    assert [trace.turns[0].visible for trace in data.traces] == ["one", "two"]
    assert list(data.lines) == [1, 2]
    assert data.sentence.startswith("hf:ann/poems: 2 rows in the 'text' format")
    assert data.sentence.endswith("other columns ignored: id")
    with pytest.raises(DataError, match=r"^hf:ann/poems:test:1: field 'text': expected a non-empty string"):
        read_traces("hf:ann/poems:test")


def test_a_split_or_name_that_does_not_exist_is_one_line(hub, monkeypatch):
    with pytest.raises(InputError, match=r"^hf:ann/poems:dev: not readable as a hub dataset: .*dev.*$"):
        read_traces("hf:ann/poems:dev")
    import datasets

    def unreachable(*_args, **_kwargs):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(InputError, match=r"^bob/poems: no such file; not readable as a hub dataset: no route$"):
        read_traces("bob/poems")


def test_without_datasets_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        InputError, match=r'^hf:ann/poems: a hub dataset needs datasets: pip install "holdfast\[data\]"$'
    ):
        read_traces("hf:ann/poems")
    with pytest.raises(InputError, match=r'^ann/poems: no such file; a hub dataset needs .*"holdfast\[data\]"$'):
        read_traces("ann/poems")


def test_what_reads_as_a_hub_name(hub):
    assert is_hub_name("hf:squad")
    assert is_hub_name("hf:ann/odd.json")
    assert is_hub_name("bob/poems")
    assert is_hub_name("bob/poems:test")
    assert not is_hub_name("ann/poems")  # a folder here
    assert not is_hub_name("squad")
    assert not is_hub_name("data/train.jsonl")
    assert not is_hub_name("data/train.csv.gz")
    assert not is_hub_name("/data/train")
    assert not is_hub_name("a/b/c")


def test_a_configuration_stands_before_the_split(hub, monkeypatch):
    """As ``openai/gsm8k``: its configurations are named in the card of the repository."""
    folder = hub / "ann" / "songs"
    for config in ("old", "new"):
        for split in ("train", "test"):
            (folder / config).mkdir(parents=True, exist_ok=True)
            (folder / config / f"{split}.jsonl").write_text(json.dumps({"text": f"{config} {split}"}) + "\n")
    configs = [f"- config_name: {name}\n  data_dir: {name}\n" for name in ("old", "new")]
    (folder / "README.md").write_text("---\nconfigs:\n" + "".join(configs) + "---\n")

    def read(source):
        return [trace.turns[0].visible for trace in read_traces(source).traces]

    assert read("hf:ann/songs:old:test") == ["old test"]
    assert read("hf:ann/songs:new:") == ["new train"]
    assert read("hf:ann/songs:new:train[:100%]") == ["new train"]
    assert read("hf:ann/poems:train[:1]") == ["one"]
    with pytest.raises(InputError, match=r"it has configurations, \[.*'new'.*\]: name one, ann/songs:CONFIG:test$"):
        read("hf:ann/songs:test")
    with pytest.raises(InputError, match=r"^hf:ann/songs:a:b:c: expected hf:OWNER/NAME, "):
        read("hf:ann/songs:a:b:c")
