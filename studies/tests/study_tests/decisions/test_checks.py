"""Checks that write two values: counted by hand, on writers that are known, and by the command."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from holdfast_studies.decisions.checks import CheckCounts, count_checks
from holdfast_studies.worlds.arithmetic import ArithmeticWorld, Product, Size
from holdfast_studies.worlds.arithmetic_writing import Writer, problems, write
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.config import InputError
from holdfast.diagnostics.transcripts import Transcript

WORLD = ArithmeticWorld(5, Size(6, 1), 3, fused=False, beside=True)
PROMPT = WORLD.prompt(Product((3, 1), (4,)))  # 13 in base 5, times 4: the steps are 12 and 6


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("a0.0 12 a0.1 6 check a0.0 12 12 a0.1 6 6 stop", CheckCounts(verdicts=1, following=1)),
        ("a0.0 12 a0.1 6 check a0.0 12 12 again", CheckCounts(verdicts=1)),
        ("a0.0 12 a0.1 9 check a0.0 12 12 a0.1 9 6 again", CheckCounts(1, 1, reaching=1, copied=1)),
        ("a0.0 12 a0.1 9 check a0.0 12 12 a0.1 9 6 stop", CheckCounts(1, 0, reaching=1, copied=1)),
        ("a0.0 12 a0.1 9 check a0.0 12 12 a0.1 6 6 stop", CheckCounts(1, 1, reaching=1, computed=1)),
        ("a0.0 12 a0.1 9 check a0.0 12 12 a0.1 7 6", CheckCounts(reaching=1, other=1)),  # cut off
        ("a0.0 12 a0.1 9 check a0.0 12 12 a0.1 9", CheckCounts()),  # cut off before the second value
        ("a0.0 12 check a0.0 13 13 stop", CheckCounts(1, 1)),  # half an attempt has no first wrong step
        ("a0.0 12 a0.1 9 stop", CheckCounts()),
        ("a0.0 12 a0.1 9 check a0.0 12 12 again b0.0 11 b0.1 6 check b0.0 11 12 again", CheckCounts(2, 1, 1, copied=1)),
    ],
)
def test_counted_by_hand(response: str, expected: CheckCounts) -> None:
    assert count_checks([Transcript(PROMPT, response, "32")], base=5) == expected


def written(writer: Writer) -> list[Transcript]:
    rng = random.Random(0)
    asked = problems(WORLD, [Size(6, 1)], 100, seed="checks")
    texts = ["".join(part.text for part in write(WORLD, each, writer, rng)) for each in asked]
    return [Transcript(WORLD.prompt(each), text, "") for each, text in zip(asked, texts, strict=True)]


def test_honest_writers_copy_and_heed_what_they_copied() -> None:
    found = count_checks(written(Writer(slip=0.2, checks="honest")), base=5)
    assert found.following == found.verdicts > 100
    assert found.copied == found.reaching > 50


def test_other_prompts_are_refused() -> None:
    with pytest.raises(InputError, match="no problem of the arithmetic world: 'What is 2 \\* 3"):
        count_checks([Transcript("What is 2 * 3?", "a0.0 6 check a0.0 6 6 stop", "6")], base=5)


def test_command(tmp_path: Path) -> None:
    file, out = tmp_path / "responses.jsonl", tmp_path / "checks.json"
    rows = [
        {"prompt": each.problem, "response": each.response, "answer": "0", "size": "6x1"}
        for each in written(Writer(slip=0.2, checks="honest"))
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    shown = CliRunner().invoke(app, ["diagnose", "checks", str(file), "--by", "size"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert CliRunner().invoke(app, ["diagnose", "checks", str(file), "--by", "size", "--json", str(out)]).exit_code == 0
    (row,) = json.loads(out.read_text(encoding="utf-8"))["checks"]
    assert row["group"] == "6x1"
    assert str(row["verdicts"]) in shown.output
    file.write_text(json.dumps({**rows[0], "response": "a0.0 12 stop"}) + "\n", encoding="utf-8")
    refused = CliRunner().invoke(app, ["diagnose", "checks", str(file)])
    assert isinstance(refused.exception, InputError)
