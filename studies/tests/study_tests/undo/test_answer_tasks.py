"""Answers graded by number, by execution and by tests; and draws that are kept by content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.config import InputError
from holdfast.judging.sandbox import pool
from holdfast.models import LoadedModel, load
from holdfast.records import Trace
from holdfast.traces import read_references
from holdfast_studies.undo import draws
from holdfast_studies.undo.answer_tasks import AnswerTask, answer_task
from holdfast_studies.undo.draws import Draws, weights_mark


def task_of(name: str, folder: Path, *rows: dict[str, Any]) -> AnswerTask:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return answer_task(f"{name}:{path}", lambda _row, _text: False)


def test_a_sum_is_right_by_its_last_number(tmp_path: Path) -> None:
    task = task_of("gsm8k", tmp_path, {"question": "3 + 4?", "answer": "3 + 4 = <<3+4=7>>7\n#### 7"})
    (row,) = task.rows
    assert task.grade([(row, "It is 7.0"), (row, "7, no: 8"), (row, "no idea"), (row, "#### 7 of 9")]) == [
        True, False, False, True,
    ]  # fmt: skip


def test_a_query_is_right_by_what_it_returns(tmp_path: Path) -> None:
    row = {
        "question": "ages over 3?",
        "context": "CREATE TABLE t (age INTEGER)",
        "answer": "SELECT age FROM t WHERE age > 3",
    }
    task = task_of("sql", tmp_path, row)
    (asked,) = task.rows
    right = "```sql\nSELECT t.age FROM t WHERE 3 < t.age;\n```"
    assert task.grade([(asked, right), (asked, "SELECT age FROM t WHERE age >= 3"), (asked, "Sorry.")]) == [
        True, False, False,
    ]  # fmt: skip


def test_a_program_is_right_by_its_tests(tmp_path: Path) -> None:
    row = {"text": "Double a number.", "code": "def twice(x):\n    return 2 * x", "test_list": ["assert twice(3) == 6"]}
    task = task_of("code", tmp_path, row)
    (asked,) = task.rows
    right, wrong = (f"```python\ndef twice(x):\n    return x * {factor}\n```" for factor in (2, 3))
    assert task.grade([(asked, right), (asked, wrong), (asked, right)]) == [True, False, True]


def test_the_same_answer_is_graded_once(tmp_path: Path) -> None:
    task = task_of("gsm8k", tmp_path, {"question": "3 + 4?", "answer": "#### 7"})
    graded: list[str] = []

    def right(_row: Trace, text: str) -> bool:
        graded.append(text)
        return text == "7"

    counting = AnswerTask(task.rows, right, task.steps)
    assert counting.grade([(task.rows[0], text) for text in ("7", "8", "7", "7")]) == [True, False, True, True]
    assert sorted(graded) == ["7", "8"]


def test_rows_are_shuffled_always_alike(tmp_path: Path) -> None:
    rows = [{"question": str(number), "answer": str(number)} for number in range(30)]
    order = [row.turns[-1].visible for row in task_of("gsm8k", tmp_path, *rows).rows]
    assert order != [str(number) for number in range(30)]
    assert order == [row.turns[-1].visible for row in task_of("gsm8k", tmp_path, *rows).rows]


@pytest.fixture(scope="module")
def tiny() -> LoadedModel:
    return load("tiny:base", device="cpu")


def drawing(tiny: LoadedModel, path: Path, **changes: Any) -> Draws:
    how: dict[str, Any] = {"max_new_tokens": 12, "temperature": 1.5, "batch_size": 4, **changes}
    return Draws(tiny, path, **how)


def test_what_was_drawn_is_not_drawn_again(tiny: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "draws.jsonl"
    beginnings = [(row, "") for row in read_references("world:safety/tune/place", limit=3)]
    beginnings.append((beginnings[0][0], "in the"))
    first = drawing(tiny, path)(beginnings, 3)
    assert [len(pool) for pool in first] == [3, 3, 3, 3]
    assert all(each.text == "in the" + each.rest for each in first[3])
    monkeypatch.setattr(draws, "continue_ids", lambda *_args, **_kwargs: pytest.fail("drawn again"))
    assert drawing(tiny, path)(beginnings, 3) == first
    with pytest.raises(pytest.fail.Exception, match="drawn again"):
        drawing(tiny, path, temperature=1.0)(beginnings, 3)


def test_a_line_that_a_kill_cut_off_is_drawn_again(tiny: LoadedModel, tmp_path: Path) -> None:
    path = tmp_path / "draws.jsonl"
    beginnings = [(row, "") for row in read_references("world:safety/tune/place", limit=3)]
    first = drawing(tiny, path)(beginnings, 2)
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[:-9], encoding="utf-8")
    again = drawing(tiny, path)(beginnings, 2)
    assert again[:2] == first[:2]
    assert [json.loads(line)["key"] for line in path.read_text(encoding="utf-8").splitlines()] == [
        json.loads(line)["key"] for line in whole.splitlines()
    ]


def test_other_weights_are_another_model(tiny: LoadedModel) -> None:
    before = weights_mark(tiny)
    weight = next(iter(tiny.model.parameters()))
    with torch.no_grad():
        weight[0, 0] += 1
        assert weights_mark(tiny) != before
        weight[0, 0] -= 1


def test_that_nothing_confines_is_told_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CONFINED", ())
    with pytest.raises(InputError, match="untrusted code cannot be confined here"):
        task_of(
            "code", tmp_path, {"text": "One.", "code": "def one():\n    return 1", "test_list": ["assert one() == 1"]}
        )
