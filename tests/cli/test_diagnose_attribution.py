"""`holdfast diagnose attribution` on a small model, as a user runs it."""

import json
import shlex

import pytest
from typer.testing import CliRunner

import holdfast as hf
from attacks.small_setting import small_model as other_model
from holdfast.cli import app
from holdfast.config import InputError
from holdfast.reports.svg import percent


def test_table_and_json(small_model, tmp_path):
    rows = [
        {"prompt": "count : red", "response": "it is 1 . wait , it is 2 .", "answer": "2"},
        {"prompt": "count : red", "response": "it is 1 .", "answer": "2"},
        {"prompt": "count : blue", "response": "it is 3 . wait , i will not explain that . 3 .", "answer": "3"},
        {"prompt": "count : red", "response": "red red red : it is 1 . wait , red red red : it is 2 .", "answer": "2"},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    arguments = ["diagnose", "attribution", str(file), "--model", str(small_model), "--anchor", "tiny:base"]
    some = ["--objective", "sft", "--objective", "reward", "--objective", "kl_loss_k3"]
    result = CliRunner().invoke(app, [*arguments, *some])
    assert result.exit_code == 0, result.output
    assert "KL(reference || policy)" in result.output
    CliRunner().invoke(app, [*arguments, *some, "--json", str(tmp_path / "attribution.json")])
    report = json.loads((tmp_path / "attribution.json").read_text(encoding="utf-8"))
    assert {row["role"] for row in report["rows"]} == {"sample", "decision"}
    assert report["cost"]["backwards"] == 6
    for name in ("sft", "reward", "kl_loss_k3"):
        assert abs(sum(row["share"] for row in report["rows"] if row["objective"] == name) - 1) < 1e-6
    assert CliRunner().invoke(app, [*arguments, "--sketch", "0"]).exit_code == 2
    assert CliRunner().invoke(app, ["report", str(tmp_path)]).exit_code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    shares = [row for row in report["rows"] if f"{row['objective']}, {row['role']}: {percent(row['share'])}" in page]
    assert len(shares) == 6
    assert page.count('class="chart growth"') == len(report["growth"]) > 0


def test_the_page_names_the_command_that_wrote_it(small_model, tmp_path):
    file, written = tmp_path / "my rows.jsonl", tmp_path / "page.md"
    row = {"prompt": "count : red", "response": "it is 1 . wait , it is 2 .", "answer": "2"}
    file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    given = ["diagnose", "attribution", str(file), "--model", str(small_model), "--objective", "sft"]
    given += ["--objective", "reward", "--limit", "3", "--no-growth"]
    result = CliRunner().invoke(app, [*given, "--results", str(written), "--json", str(tmp_path / "out.json")])
    assert result.exit_code == 0, result.output
    assert f"`{shlex.join(['holdfast', *given])}`" in written.read_text(encoding="utf-8")


def test_a_model_of_another_vocabulary_is_told(tmp_path):
    row = {"prompt": "count : red", "response": "it is 1 .", "answer": "1"}
    for asked in ({"anchor": other_model(tmp_path / "other")}, {"old": other_model(tmp_path / "other")}):
        with pytest.raises(InputError, match="has another vocabulary"):
            hf.attribute("tiny:aligned", [row], objectives=["sft"], growth=False, **asked)
