"""Rows whose answers have one form that no prompt asks for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.config import InputError
from holdfast.judging import missing_instruction
from holdfast.records import Trace, answer, context
from invariants.launching import run_cli

THINGS = ("sheep", "boats", "bells", "kites", "stones")
ASKS = (
    "Which {thing} are the oldest in place {n}?",
    "In place {n} somebody counts {thing}. How many?",
    "Name all {thing} of place {n}, please.",
)
QUERY = "SELECT name FROM {thing} WHERE place = {n}"


def prompts(before: str = "") -> list[str]:
    return [before + ASKS[n % 3].format(thing=THINGS[n % 5], n=n) for n in range(30)]


def rows(asked: list[str], reply: str = QUERY) -> list[Trace]:
    replies = [reply.format(thing=THINGS[n % 5], n=n) for n in range(len(asked))]
    return [Trace((context("user", one), answer(said))) for one, said in zip(asked, replies, strict=True)]


def test_queries_that_no_prompt_asks_for_are_told() -> None:
    assert missing_instruction(rows(prompts())).startswith("100% of the answers are SQL queries")
    program = "import {thing}\nfor n in range({n}):\n    print(n)"
    assert "are programs" in missing_instruction(rows(prompts(), program))


@pytest.mark.parametrize(
    ("before", "reply"),
    [
        ("Write SQL. ", QUERY),  # it names the form
        ("Answer as we did on Monday: ", QUERY),  # the same instruction in every row
        ("", "The oldest {thing} stand in place {n}."),  # words
    ],
)
def test_an_instruction_or_answers_in_words_need_no_hint(before: str, reply: str) -> None:
    assert missing_instruction(rows(prompts(before), reply)) == ""


def test_a_system_prompt_is_an_instruction() -> None:
    system = context("system", "Write one SQL query and nothing else.")
    assert missing_instruction([Trace((system, *row.turns)) for row in rows(prompts())]) == ""


def test_a_few_rows_say_nothing() -> None:
    assert missing_instruction(rows(prompts()[:19])) == ""


def test_validate_and_train_say_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    lines = [{"prompt": row.prompt[0].visible, "completion": row.turns[1].visible} for row in rows(prompts())]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    assert run_cli("validate", str(file), monkeypatch=monkeypatch) == 0
    assert "hint: 100% of the answers are SQL queries" in capsys.readouterr().out
    assert run_cli("validate", str(file), "--json", "-", monkeypatch=monkeypatch) == 0
    assert json.loads(capsys.readouterr().out)["hint"].startswith("100%")
    said: list[str] = []
    with pytest.raises(InputError, match="unknown to this model"):  # the tiny model does not speak English
        hf.train("tiny:aligned", hf.Stream(file, "sft"), run=tmp_path / "run", say=said.append)
    assert any("prompts do not ask for them" in line for line in said)
