"""`holdfast generate` and `holdfast traces` through the real command line, and the terminal that takes back."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from conftest import save_learned_positions
from holdfast.cli.paper import Paper
from holdfast.models import add_tokens, load
from invariants.launching import run_cli

ASKED = "what colour is a welmi plimmet ?"


@pytest.fixture(scope="module")
def undoing(tmp_path_factory: pytest.TempPathFactory) -> str:
    """tiny:aligned with ``<UNDO>`` in its vocabulary, as a folder."""
    folder = tmp_path_factory.mktemp("model")
    loaded = load("tiny:aligned")
    add_tokens(loaded.model, loaded.tokenizer)
    loaded.model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    return str(folder)


def test_plain_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli("generate", "tiny:aligned", ASKED, "copy : sun river stone", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr()
    first, second = said.out.splitlines()
    assert "make-believe" not in said.err
    assert first.startswith("it is ")
    assert second == "sun river stone"


def test_a_prompt_that_the_embedded_models_do_not_speak_is_answered_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first has a word that they do not know, the third only words that they know, but asks nothing."""
    asked = ("hello, how are you?", ASKED, "hello")
    assert run_cli("generate", "tiny:aligned", *asked, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 3
    assert "holdfast: request 1, 3: This little model only speaks a make-believe language" in said.err


def test_learned_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer ends with them; a request that leaves no room for one is wrong input."""
    model, out = str(save_learned_positions(tmp_path / "model", 16)), tmp_path / "out.json"
    drawing = ("--n", "2", "--temperature", "1")
    for options in ((), drawing):
        asked = ("generate", model, "copy : sun", "copy : sun river stone", *options, "--json", str(out))
        assert run_cli(*asked, monkeypatch=monkeypatch) == 0
    capsys.readouterr()
    assert run_cli("generate", model, "copy : sun", "sun " * 30, monkeypatch=monkeypatch) == 2
    assert capsys.readouterr().err.endswith(
        "request 2 has 34 tokens, but this model reads 16: shorten it or leave it out\n"
    )


@pytest.mark.parametrize("context", ["soft", "hard"])
def test_events_make_the_text(
    undoing: str, context: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--undo", "--context", context, "--begin", "it was", "--events", "--max-new-tokens", "12")
    assert run_cli("generate", undoing, ASKED, *options, monkeypatch=monkeypatch) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    shown = ""
    for event in events:
        shown = shown[: len(shown) - event.get("num_chars", 0)] + event.get("text", "")
    assert events[-1]["event"] == "finished"
    assert events[-1]["completion"]["text"] == shown


def test_json_and_data(undoing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--data", "world:safety/test/colour", "--limit", "3", "--undo", "--json", str(tmp_path / "out.json"))
    assert run_cli("generate", undoing, *options, monkeypatch=monkeypatch) == 0
    told = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [row["finish_reason"] for row in told] == ["stop"] * 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "copy : sun river stone\ncopy : river\n"),
        ("a.csv", "request\ncopy : sun river stone\ncopy : river\n"),
        ("a.json", '["copy : sun river stone"]'),
    ],
)
def test_a_file_of_requests_without_answers(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    asked = ("generate", "tiny:aligned", "--data", str(tmp_path / name), "--limit", "1")
    assert run_cli(*asked, monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == "sun river stone\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tiny:aligned"], "either requests or --data"),
        (["tiny:aligned", "x", "--context", "firm", "--undo"], "expected soft or hard"),
        (["tiny:aligned", "x", "--begin", "y"], "need --undo"),
        (["tiny:aligned", "x", "--max-undos", "3"], "need --undo"),
        (["tiny:aligned", "x", "--pace", "0"], "need --undo"),
        (["tiny:aligned", "x", "--undo"], "no <UNDO>"),
        (["tiny:aligned", "x", "--undo", "--events", "--json", "never.json"], "leave --json out"),
        (["tiny:aligned", "x", "--n", "2", "--temperature", "1", "--soft", "0"], "--soft 0: expected a temperature"),
        (["tiny:aligned", "copy : sun", "--temperature", "1", "--seed", str(2**64)], ": expected at most 64 bits"),
        (["tiny:aligned", "copy : sun", "--temperature", "1e-320"], "at least 1e-06"),
        (["tiny:aligned", "x", "not \udcff UTF-8"], "request 2: expected UTF-8"),
        (["tiny:aligned", "copy : sun", " "], "request 2: is empty"),
        (["tiny:aligned", "copy : sun", "--limit", "1"], "--limit needs --data"),
        (["tiny:aligned", "copy : sun", "--model-name", "x"], "--model-name and --tokenizer go with a server"),
        (["tiny:aligned", "copy : sun", "--tokenizer", "x"], "--model-name and --tokenizer go with a server"),
    ],
)
def test_mistakes_in_one_line(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli("generate", *arguments, monkeypatch=monkeypatch) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


def test_traces_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "traces.jsonl"
    command = ("traces", "make", "world:safety/tune/recipe", str(out), "--limit", "12")
    for builder in ("perturb", "random", "align"):
        assert run_cli(*command, "--builder", builder, "--model", "tiny:base", monkeypatch=monkeypatch) == 0
        assert capsys.readouterr().out.startswith("12 traces: ")
        assert len(out.read_text(encoding="utf-8").splitlines()) == 12
    out.unlink()
    for wrong in (("--errors", "3-1"), ("--length", "x"), ("--clean", "1"), ("--builder", "random")):
        assert run_cli(*command, *wrong, monkeypatch=monkeypatch) == 2
        assert not out.exists()
    capsys.readouterr()
    for option, value, builder in (
        ("--starts", "nowhere.jsonl", "perturb"),
        ("--temperature", "0.5", "perturb"),
        ("--model", "tiny:base", "refusal"),
    ):
        assert run_cli(*command, option, value, "--builder", builder, monkeypatch=monkeypatch) == 2
        assert f"{option}: belongs to --builder" in capsys.readouterr().err
        assert not out.exists()
    out.write_text('{"prompt": "1 + 1", "completion": "2"}\n')
    assert run_cli("traces", "make", str(out), str(out), monkeypatch=monkeypatch) == 2
    assert out.read_text() == '{"prompt": "1 + 1", "completion": "2"}\n'  # a user's own rows


class Screen:
    """A terminal that knows the four sequences in use, and wraps as terminals do."""

    def __init__(self, width: int) -> None:
        self.width, self.rows, self.row, self.column = width, [""], 0, 0

    def write(self, text: str) -> None:
        for code, char in re.findall(r"\x1b\[(\d*[ACJ])|(.)", text, re.DOTALL):
            if code.endswith("A"):
                self.row -= int(code[:-1])
            elif code.endswith("C"):
                self.column += int(code[:-1])
            elif code:
                del self.rows[self.row + 1 :]
                self.rows[self.row] = self._cells(self.row)[: self.column]
            elif char == "\r":
                self.column = 0
            elif char == "\n":
                self.row, self.column = self.row + 1, 0
                self.rows += [""] * (self.row + 1 - len(self.rows))
            else:
                assert self.column + cell_len(char) <= self.width, "the terminal would wrap by itself"
                assert self.column == len(self._cells(self.row))
                self.rows[self.row] = self._cells(self.row) + char + "\0" * (cell_len(char) - 1)
                self.column += cell_len(char)

    def _cells(self, row: int) -> str:
        return self.rows[row]


edits = st.lists(st.one_of(st.text(st.sampled_from("ab \n漢\x1b"), max_size=9), st.integers(1, 12)), max_size=25)


@given(edits, st.integers(4, 9))
def test_what_is_on_the_screen_is_the_text(changes: list[str | int], width: int) -> None:
    screen = Screen(width)
    paper = Paper(screen.write, width)
    text = ""
    for change in changes:
        if isinstance(change, str):
            paper.insert(change)
            text += change.replace("\x1b", "·")
        else:
            paper.delete(min(change, len(text)))
            text = text[: len(text) - min(change, len(text))]
        assert "".join(screen.rows).replace("\0", "") == text.replace("\n", "")
        assert paper.text == text


def test_nothing_but_the_answers_is_said_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A progress bar that nobody sees left an empty line."""
    assert run_cli("generate", "tiny:aligned", ASKED, monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().err == ""
