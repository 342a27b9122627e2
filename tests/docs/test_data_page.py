"""docs/data.md: every example reads as the format it stands under, and every name of the page exists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from docs.pages import DOCS, fenced, section, without_fences
from holdfast.config import InputError
from holdfast.data import read_traces
from holdfast.data.columns import HONOURED, REFUSED
from holdfast.data.formats import ANSWERS, FORMATS, PAIRS, REQUESTS, SEGMENT_ROLES
from holdfast.data.messages import CALLS, SHAREGPT, SPEAKERS, THOUGHTS
from holdfast.data.rows import _READERS
from holdfast.records import Role
from holdfast.worlds import world_traces
from holdfast.worlds.safety import KINDS_OF_REQUEST
from holdfast.worlds.splits import Split

PAGE = (DOCS / "data.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)


def test_every_format_has_its_part() -> None:
    own = [form.name for form in FORMATS if form not in PAIRS]
    assert [name for name, _ in EXAMPLES] == [*own, "question-answer"]


@pytest.mark.parametrize(("name", "text"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_every_example_reads_as_its_format(name: str, text: str, tmp_path: Path) -> None:
    rows = fenced(text, "json")
    assert len(rows) == 1
    path = tmp_path / "rows.jsonl"
    path.write_text(rows[0], encoding="utf-8")
    dataset = read_traces(path)
    assert dataset.format == name
    assert len(dataset.traces) == 1
    assert "ignored" not in dataset.sentence


def test_the_example_of_a_complaint_is_a_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    row = json.loads(fenced(dict(EXAMPLES)["trace"], "json")[0])
    del row["segments"][2]
    Path("rows.jsonl").write_text("\n" * 16 + json.dumps(row), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_traces("rows.jsonl")
    assert f"    {str(caught.value).splitlines()[0]}\n" in PAGE


def test_words_of_the_code_are_on_the_page() -> None:
    words = set(re.findall(r"`([^`]+)`", without_fences(PAGE)))
    assert {*SPEAKERS, *SHAREGPT, *SEGMENT_ROLES, *_READERS} <= words
    assert {*REQUESTS, *ANSWERS} <= set(re.findall(r"`([^`]+)`", dict(EXAMPLES)["question-answer"]))
    columns = set(re.findall(r"`([^`]+)`", section(PAGE, "Columns that change the meaning")))
    assert {*HONOURED, *REFUSED, *CALLS, *THOUGHTS, "weight"} <= columns
    assert Role.PROMPT.label not in SEGMENT_ROLES
    world = set(re.findall(r"`([^`]+)`", section(PAGE, "The embedded world")))
    assert {*get_args(Split), *KINDS_OF_REQUEST} <= world
    for name in world:
        if name.startswith("world:") and "SPLIT" not in name:
            assert len(world_traces(name, limit=3).traces) == 3
