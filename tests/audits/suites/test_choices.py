"""Lettered answers: what is asked, which letter is right, and rows that are none."""

import json
from pathlib import Path

import pytest

from holdfast.audits.suites.choices import choice_suite
from holdfast.config import InputError
from holdfast.records import Completion

ROWS = [
    {"question": "What burns?", "choices": ["stone", "straw", "water"], "answer": "B"},
    {"question": "1 + 1?", "choices": ["2", "3"], "answer": "A"},
]


def _file(folder: Path, rows: list[dict[str, object]]) -> Path:
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "items.jsonl"


def test_a_question_shows_its_letters_and_the_first_letter_of_an_answer_counts(tmp_path: Path) -> None:
    suite = choice_suite(_file(tmp_path, ROWS), None, "arc")
    asked = suite.rows[0].turns[0].visible
    assert asked == "What burns?\n\nA. stone\nB. straw\nC. water\n\nAnswer with the letter alone."
    assert suite.letters == (("A", "B", "C"), ("A", "B"))
    scored = suite.score([Completion("", " b. straw"), Completion("", "C")])
    (figure,) = scored.figures
    assert (figure.name, figure.scores, figure.unscored) == ("arc", "1 0", 1)
    assert [verdict["letter"] for verdict in scored.verdicts] == ["right", "unscored"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"answer": "D"}, "expected one of A, B, C, got D"),
        ({"choices": ["stone"]}, "expected 2 to 10 texts, got 1"),
        ({"choices": "stone"}, "expected a non-empty list of texts"),
    ],
)
def test_a_row_that_cannot_be_asked_is_told(tmp_path: Path, change: dict[str, object], line: str) -> None:
    with pytest.raises(InputError, match=line):
        choice_suite(_file(tmp_path, [{**ROWS[0], **change}]), None)
