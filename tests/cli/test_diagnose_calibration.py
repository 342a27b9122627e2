"""`holdfast diagnose calibration`, as a user runs it."""

import json

import pytest
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.config import InputError

ROWS = [
    {"prompt": "12*3", "response": "35. Wait, let me recheck: 36.", "answer": "36"},
    {"prompt": "12*4", "response": "48.", "answer": "48"},
    {"prompt": "12*5", "response": "61. Let me verify. 61", "answer": "60"},
    {"prompt": "12*6", "response": "72.", "answer": "72", "finish_reason": "length"},
]


def test_an_empty_token_splits_nothing(file):
    with pytest.raises(InputError, match="resample=: expected a token"):
        run(file, "--resample", "")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def run(*arguments):
    result = CliRunner().invoke(app, ["diagnose", "calibration", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_table_and_json(file, tmp_path):
    assert "p_dW, tries again when wrong" in run(file).output
    run(file, file, "--json", tmp_path / "out.json")
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    figures = found["calibration"][0]["figures"]
    assert figures["p_s"]["value"] == 0.5
    assert figures["p_dW"] == {**figures["p_dW"], "value": 2 / 3, "trials": 3}
    assert figures["cut_off"]["value"] == 0.25
    assert found["decomposition"][0]["parts"]["total"]["value"] == 0.0


@pytest.mark.parametrize(
    ("responses", "said"),
    [
        (["4", "5. Wait, 4"], "reflection pays;"),
        (["4. Wait, 5", "5"], "reflection costs: stopping after the first attempt would be right more often;"),
        (
            ["4", "5. Wait, 4", "4. Wait, 5"],
            "not shown whether reflection pays: the interval of p_dC + p_dW - 1 includes 0;",
        ),
    ],
)
def test_what_the_interval_does_not_show_is_not_claimed(responses, said, tmp_path):
    rows = [
        {"prompt": f"{number} of them", "response": response, "answer": "4"}
        for number, response in enumerate(responses * (1 if len(responses) == 3 else 20))
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert said in " ".join(run(tmp_path / "rows.jsonl").output.split())


def test_exact_tokens_and_own_markers(file, tmp_path):
    (tmp_path / "markers.txt").write_text("let me verify\n", encoding="utf-8-sig")  # as Windows writes it
    run(file, "--markers", tmp_path / "markers.txt", "--json", tmp_path / "out.json")
    figures = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["calibration"][0]["figures"]
    assert figures["counts"]["attempts"] == 5
    with pytest.raises(InputError, match="choose one way"):
        run(file, "--markers", tmp_path / "markers.txt", "--resample", "again")
    with pytest.raises(InputError, match="goes with resample="):
        run(file, "--stop", "done")
    with pytest.raises(InputError, match="resample=: extract=product splits in its own way; leave it out"):
        run(file, "--extract", "product", "--resample", "again")


def test_groups_are_called_as_their_owner_likes(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({**row, "kind": "[/b]\x1b[31m"}) + "\n" for row in ROWS), encoding="utf-8")
    said = run(path, "--by", "kind").output.replace("\n", "")
    assert "[/b]\\x1b[31m" in said
    assert "\x1b[31m" not in said
