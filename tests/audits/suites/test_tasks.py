"""Scores by hand: ROUGE, final numbers, SQL figures, and what becomes of answers that never came."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.audits.suites import gsm8k_suite, sql_suite, summary_suite
from holdfast.audits.suites.gsm8k import final_number
from holdfast.audits.suites.suite import drawn
from holdfast.config import InputError
from holdfast.records import Completion, Figure


def lines(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def said(*texts: str | None) -> list[Completion]:
    return [Completion("?", text or "", finish_reason="stop" if text is not None else "error") for text in texts]


def by_name(figures: tuple[Figure, ...]) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures}


def test_rouge_by_hand(tmp_path: Path) -> None:
    """Reference 'the cat sat on the mat' (6 words), answer 'the cat on a mat' (5).

    Words in common: the, cat, on, mat: P 4/5, R 4/6, F 8/11. Pairs: 'the cat' only, of 4 and 5: F 2/9.
    Longest common subsequence: the cat on mat, 4: F 8/11. The second answer never came: 0.
    """
    row = {"dialogue": "A: where is it?\nB: on the mat.", "summary": "the cat sat on the mat"}
    suite = summary_suite(lines(tmp_path / "dialogues.jsonl", row, row), None)
    found = by_name(suite.score(said("The cat on a mat.", None)).figures)
    assert found["summary_rouge1"].value == pytest.approx(8 / 11 / 2)
    assert found["summary_rouge2"].value == pytest.approx(2 / 9 / 2)
    assert found["summary_rougeL"].value == pytest.approx(8 / 11 / 2)
    assert (found["summary_rouge1"].low, found["summary_rouge1"].high) == (0, pytest.approx(8 / 11))
    assert [figure.unscored for figure in found.values()] == [1, 1, 1]
    assert "A: where is it?" in suite.rows[0].turns[0].visible


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("He has 3 + 4 = 7 apples.\n#### 7", 7),
        ("#### 1,234.50", "1234.5"),
        ("so it is 18", 18),
        ("$18.00", 18),
        ("It costs 5 dollars, no, 6 dollars.", 6),
        ("-3 degrees", -3),
        ("#### 12 apples and 3 pears", 12),
        ("first #### 3, then #### 4", 4),
        ("I got 9 ####", 9),
        ("one hundred", None),
        ("", None),
        ("9" * 5000, None),
    ],
)
def test_final_number(text: str, number: int | str | None) -> None:
    assert final_number(text) == (None if number is None else Decimal(number))


def test_gsm8k_counts_right_wrong_and_none(tmp_path: Path) -> None:
    row = {"question": "3 + 4?", "answer": "3 + 4 = 7\n#### 7"}
    suite = gsm8k_suite(lines(tmp_path / "sums.jsonl", *[row] * 4), None)
    scored = suite.score(said("it is 7.0", "it is 8", "no idea", None))
    (figure,) = scored.figures
    assert (figure.value, figure.trials, figure.unscored) == (0.25, 4, 2)
    assert [each["number"] for each in scored.verdicts] == ["right", "wrong", "unscored", "unscored"]


def test_sql_figures(tmp_path: Path) -> None:
    table = "CREATE TABLE shop (name VARCHAR, size INTEGER)"
    row = {"question": "Which are big?", "context": table, "answer": "SELECT name FROM shop WHERE size > 20"}
    unclear = {**row, "answer": "SELECT owner FROM shop"}
    suite = sql_suite(lines(tmp_path / "queries.jsonl", row, row, row, row, unclear), None)
    scored = suite.score(
        said(
            "SELECT  name FROM shop\nWHERE size > 20;",
            "select name from shop where 20 < size",
            "SELECT 1",
            None,
            "SELECT 1",
        )
    )
    found = by_name(scored.figures)
    assert [each["meaning"] for each in scored.verdicts] == ["equal", "equal", "different", "broken", "undecided"]
    assert (found["sql_meaning"].value, found["sql_meaning"].unscored) == (0.4, 1)
    assert (found["sql_exact"].value, found["sql_exact"].unscored) == (0.2, 1)
    assert found["sql_broken"].value == 0.2
    assert scored.figures[0].name == "sql_meaning"  # what --min-utility is about


def test_a_row_may_bring_its_own_prompt(tmp_path: Path) -> None:
    row = {"question": "3 + 4?", "answer": "#### 7", "prompt": "as I was taught: 3 + 4"}
    suite = gsm8k_suite(lines(tmp_path / "sums.jsonl", row), None)
    assert suite.rows[0].turns[0].visible == "as I was taught: 3 + 4"


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"question": "3 + 4?"}, r"sums.jsonl:1: field 'answer': expected a non-empty string, got nothing"),
        ({"question": "3 + 4?", "answer": "seven"}, r"sums.jsonl:1: field 'answer': expected a solution with a number"),
        (
            {"question": 3, "answer": "#### 7"},
            r"sums.jsonl:1: field 'question': expected a non-empty string, got a number",
        ),
    ],
)
def test_bad_rows_are_told(tmp_path: Path, row: dict[str, object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        gsm8k_suite(lines(tmp_path / "sums.jsonl", row), None)


def test_a_limit_draws_from_all_over_the_file() -> None:
    rows = list(range(1000))
    some = drawn(rows, 20)
    assert (len(some), some, some == drawn(rows, 20)) == (20, sorted(some), True)
    assert max(some) > 800
    assert min(some) < 200
    assert drawn(rows, 5000) == rows
