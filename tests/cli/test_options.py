"""A message of the library names arguments; the command line tells its own options instead."""

import pytest
import typer

from holdfast.cli import app
from holdfast.cli.options import with_options
from invariants.launching import run_cli


@pytest.mark.parametrize(
    ("words", "message", "told"),
    [
        ("audit m", "suite='safty': expected one", "--suite 'safty': expected one"),
        ("audit m", "max_complied=2: expected a share", "--max-complied 2: expected a share"),
        (
            "audit m",
            'min_kept=: add judges="outcome" or anchor=MODEL',
            "--min-kept: add --judge outcome or --anchor MODEL",
        ),
        ("audit m", "give one or more of sql=, code=.", "give one or more of --sql, --code."),
        ("audit m", "pass allow_pickle=True if you trust", "pass --allow-pickle if you trust"),
        ("audit m", 'say which with endpoint={"name": ...}', "say which with --model-name ..."),
        ("audit runs/limit=3", "runs/limit=3: no such folder", "runs/limit=3: no such folder"),
        ("diagnose calibration f", 'columns={"reference": ...}', "--reference ..."),
        ("compare a b", "figures='x': not in both; common=True leaves", "--figure 'x': not in both; --common leaves"),
        ("forge -- x", "forge: only=x: unknown", "forge: --program x: unknown"),
        ("train c", "use device=cpu; training.lr=1: too much", "use device=cpu; training.lr=1: too much"),
        ("", "limit=1", "limit=1"),
    ],
)
def test_arguments_become_options_of_the_command_that_was_run(words: str, message: str, told: str) -> None:
    assert with_options(message, typer.main.get_command(app), words.split()) == told


def test_the_command_line_says_it_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli("compare", "a.jsonl", "b.jsonl", "--margin", "0", monkeypatch=monkeypatch) == 2
    assert capsys.readouterr().err == "holdfast: --margin 0: expected a number above 0, in the unit of the scores\n"
