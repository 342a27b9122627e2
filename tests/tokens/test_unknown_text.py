"""Text that a model has no words for is refused by file and line: it would be read as a row of unknown tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.config import InputError
from holdfast.generation import generate
from holdfast.models import load
from holdfast.records import Trace, answer, context
from holdfast.tokens import tokenize_all
from holdfast.worlds.tokenizer import build_tokenizer
from invariants.launching import run_cli

ENGLISH = Trace((context("user", "Could somebody translate this?"), answer("Certainly not today")))
KNOWN = Trace((context("user", "count : sun river"), answer("2")))


def row(request: str, text: str) -> Trace:
    return Trace((context("user", request), answer(text)))


@pytest.mark.parametrize(("text", "fits"), [("sun river nobody nothing", True), ("sun nobody nothing", False)])
def test_more_than_half_is_too_much(text: str, fits: bool) -> None:
    """'sun river' and 'xyzzy plugh' make two known words and two unknown ones before the answer begins."""
    trace = row("sun river xyzzy plugh", text)
    if fits:
        assert len(tokenize_all([trace], build_tokenizer())[0]) == 1
    else:
        with pytest.raises(InputError, match="row 0: 4 of its 7 tokens are unknown to this model"):
            tokenize_all([trace], build_tokenizer())


def test_a_whole_file_of_them_is_one_line_with_the_first_place_and_what_to_do() -> None:
    with pytest.raises(InputError) as caught:
        tokenize_all([KNOWN, *[ENGLISH] * 39], build_tokenizer(), where="rows.jsonl:{}".format)
    (line,) = str(caught.value).splitlines()
    assert line.startswith("rows.jsonl:1: 6 of its 8 tokens are unknown to this model: ")
    assert "holdfast recipes rows" in line
    assert line.endswith("(and 38 more rows)")


def test_they_count_as_bad_rows() -> None:
    rows, report = tokenize_all([KNOWN, ENGLISH], build_tokenizer(), where="a:{}".format, skip_bad=1)
    assert [each.source for each in rows] == [0]
    assert report.problems[0].startswith("a:1: 6 of its 8 tokens")


def test_an_unknown_token_that_ends_texts_stands_for_no_word() -> None:
    tokenizer = build_tokenizer()
    tokenizer.unk_token = tokenizer.eos_token  # as GPT-2 has it
    assert len(tokenize_all([row("count : sun", "1")], tokenizer)[0]) == 1


def test_a_request_is_refused_before_anything_is_generated() -> None:
    loaded = load("tiny:aligned")
    with pytest.raises(InputError, match="request 2: 3 of its 3 tokens are unknown to this model"):
        generate(loaded.model, loaded.tokenizer, ["count : sun", "Good evening everybody"], max_new_tokens=2)


@pytest.mark.parametrize(
    "command",
    [
        "tokens rows.jsonl --model tiny:aligned",
        "validate rows.jsonl --model tiny:aligned",
        "train train.yaml",
        "train train.yaml streams.0.vet=refusal_phrases",
    ],
)
def test_commands_say_it_in_one_line_and_leave_nothing(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"prompt": "Could somebody translate this?", "completion": "Certainly not today"}] * 2
    Path("rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    Path("train.yaml").write_text("{run: run, model: 'tiny:aligned', streams: [{data: rows.jsonl}]}")
    assert run_cli(*command.split(), monkeypatch=monkeypatch) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("holdfast: ")]
    assert len(said) == 1
    assert said[0].startswith("holdfast: rows.jsonl:1: 6 of its 8 tokens are unknown to this model")
    assert not Path("run").exists()
