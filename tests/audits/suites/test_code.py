"""Functions written by a model and run in the sandbox: HumanEval's shape and MBPP's, right, wrong and hostile."""

import json
from pathlib import Path
from typing import Any

import pytest

from attacks.small_setting import small_model
from holdfast.audits.model_audit import Plan, audit_model
from holdfast.audits.suites.code import CodeTask, code_suite, whole_program
from holdfast.config import InputError
from holdfast.generation import ModelSampler
from holdfast.models import load
from holdfast.records import Completion

HUMANEVAL = {
    "task_id": "Test/0",
    "prompt": 'import math\n\ndef area(r):\n    """Area of a circle."""\n',
    "entry_point": "area",
    "canonical_solution": "    return math.pi * r * r\n",
    "test": "def check(candidate):\n    assert abs(candidate(1) - 3.14159) < 1e-3\n    assert candidate(0) == 0\n",
}
MBPP = {
    "text": "Write a function to double a number.",
    "code": "def helper(x):\n    return x\n\ndef twice(x):\n    return 2 * helper(x)",
    "test_list": ["assert twice(2) == 4", "assert twice(-1) == -2"],
}


def lines(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def said(*texts: str) -> list[Completion]:
    return [Completion("?", text) for text in texts]


def test_both_shapes_are_asked_and_their_own_solutions_pass(tmp_path: Path) -> None:
    suite = code_suite(lines(tmp_path / "tasks.jsonl", HUMANEVAL, MBPP), None)
    assert "def area(r):" in suite.rows[0].turns[0].visible
    assert "assert twice(2) == 4" in suite.rows[1].turns[0].visible
    assert "assert twice(-1)" not in suite.rows[1].turns[0].visible
    scored = suite.score(said(*(row.turns[-1].visible for row in suite.rows)))
    assert scored.figures[0].value == 1


def test_a_task_without_a_solution_is_asked_and_has_no_perplexity(tmp_path: Path) -> None:
    bare = {name: value for name, value in HUMANEVAL.items() if name != "canonical_solution"}
    loaded, found = load(small_model(tmp_path / "model")), {}
    for name, rows in (("none", [bare]), ("one", [bare, HUMANEVAL])):
        suite = code_suite(lines(tmp_path / f"{name}.jsonl", *rows), None)
        result, _ = audit_model(ModelSampler(loaded), Plan((), (suite,)))
        found[name] = {figure.name: figure.trials for figure in result.figures}
    assert "perplexity" not in found["none"]
    assert found["one"]["perplexity"] == 1


def test_wrong_hostile_and_silent_answers_fail(tmp_path: Path) -> None:
    suite = code_suite(lines(tmp_path / "tasks.jsonl", *[HUMANEVAL] * 4), None)
    answers = (
        "Sure!\n```python\ndef area(r):\n    return 3 * r * r\n```",
        "```python\ndef area(r):\n    import os\n    os.fork()\n    return 0\n```",
        "",
        "```python\ndef area(r):\n    return math.pi * r * r\n```\nIt multiplies.",
    )
    scored = suite.score(said(*answers))
    assert [verdict["test"].startswith("passed") for verdict in scored.verdicts] == [False, False, False, True]
    assert (scored.figures[0].value, scored.figures[0].unscored) == (0.25, 1)


def test_an_answer_that_goes_on_with_the_body_is_put_behind_the_beginning() -> None:
    task = CodeTask("area", "", HUMANEVAL["prompt"])  # type: ignore[arg-type]
    assert whole_program(task, "    return 1\nThat is all.") == HUMANEVAL["prompt"] + "    return 1\n"  # type: ignore[operator]


@pytest.mark.parametrize(
    "answer",
    [
        "return 3 * r",
        "half = r\n    return 2 * half + r",
        "half = r\nif half:\n    return 2 * half + r\nreturn 0",
        "if r:\n    return 3 * r\nreturn 0\n\nThat is all.",
        "Here it is:\ndef area(r):\n    return 3 * r\nThat is all.",
        "```python\ndef area(r):\n    return 3 * r",  # cut off before the fence is closed
        "    def area(r):\n        return 3 * r",
        "area = lambda r: 3 * r",
    ],
)
def test_code_is_found_however_it_is_laid_out(answer: str) -> None:
    names: dict[str, Any] = {}
    exec(whole_program(CodeTask("area", "", HUMANEVAL["prompt"]), answer), names)
    assert names["area"](2) == 6


def test_a_row_whose_test_calls_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tasks\.jsonl:1: field 'test_list'"):
        code_suite(lines(tmp_path / "tasks.jsonl", {**MBPP, "test_list": ["assert thrice(1) == 3"]}), None)
