"""Rows of the tasks, and the part of an answer that counts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from holdfast.config import InputError
from holdfast.traces import TASKS, read_references


def test_two_digit_arithmetic_is_right_and_split() -> None:
    train, test = (read_references(f"arithmetic:{split}") for split in ("train", "test"))
    asked = [row.turns[0].visible for row in (*train, *test)]
    assert len(asked) == len(set(asked)) == 2 * 90 * 90
    assert len(test) == len(asked) // 5
    for row in test[:50]:
        asked = row.turns[0].visible.removeprefix("What is ").removesuffix("?")
        assert eval(asked) == int(row.turns[-1].visible)


def test_sql_and_gsm8k_rows(tmp_path: Path) -> None:
    (tmp_path / "sql.json").write_text(json.dumps([{"question": "how many?", "context": "T", "answer": "SELECT 1"}]))
    (row,) = read_references(f"sql:{tmp_path / 'sql.json'}")
    assert row.turns[0].visible == "T\n\nWrite one SQL query. how many?"
    (tmp_path / "g.jsonl").write_text(json.dumps({"question": "q", "answer": "2+3 = <<2+3=5>>5\n#### 5"}) + "\n")
    (row,) = read_references(f"gsm8k:{tmp_path / 'g.jsonl'}")
    assert row.turns[-1].visible == "2+3 = 5\n#### 5"


def test_lines_end_where_json_lines_end(tmp_path: Path) -> None:
    """A text may hold U+2028 as it is, and a file may end in an empty line."""
    (tmp_path / "g.jsonl").write_text('{"question": "q", "answer": "2\u20283"}\n\n', encoding="utf-8")
    (row,) = read_references(f"gsm8k:{tmp_path / 'g.jsonl'}")
    assert row.turns[-1].visible == "2\u20283"


def test_task_files_are_read_as_data_files_are(tmp_path: Path) -> None:
    """A BOM and CRLF are no text, and gzip is unpacked."""
    row = b'\xef\xbb\xbf{"question": "q", "answer": "5"}\r\n'
    (tmp_path / "g.json").write_bytes(row)
    (tmp_path / "g.jsonl.gz").write_bytes(gzip.compress(row))
    for name in ("g.json", "g.jsonl.gz"):
        (trace,) = read_references(f"gsm8k:{tmp_path / name}")
        assert [turn.visible for turn in trace.turns] == ["q", "5"]


def test_the_part_that_counts() -> None:
    assert TASKS["gsm8k"].final("so 3 + 4\n#### 1,234") == "1234"
    assert TASKS["gsm8k"].final("none") is None
    assert TASKS["sql"].final(" SELECT  a ;") == "SELECT a"
    assert TASKS["arithmetic"].final("20 - 30 = -10") == "-10"


def test_a_bad_row_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('[{"question": "q", "answer": 3}]')
    with pytest.raises(InputError, match=r"x\.json:1: field 'answer': expected a string, got a number"):
        read_references(f"gsm8k:{tmp_path / 'x.json'}")
    with pytest.raises(InputError, match="arithmetic:validation"):
        read_references("arithmetic:validation")
