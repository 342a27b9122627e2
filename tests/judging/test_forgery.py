"""`holdfast forge`: a careless checker is shown to be careless, a strict one is not, and nothing outlives its run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from holdfast.config import InputError
from holdfast.judging.forgery import Limits, forge
from holdfast.judging.sandbox.hostile import HOSTILE
from invariants.launching import run_cli

CARELESS = """
import sys
program, test = (open(path).read() for path in sys.argv[1:3])
names = {}
exec(program, names)
exec(test, names)
names["check"](names["f"])
"""
STRICT = """
import ast, subprocess, sys
call = "\\nvalue = f(3)\\nprint(repr(value) if type(value) is int else None)"
wanted = next(node for node in ast.walk(ast.parse(open(sys.argv[2]).read())) if isinstance(node, ast.Compare)).comparators[0]
ran = subprocess.run([sys.executable, "-c", open(sys.argv[1]).read() + call], capture_output=True, text=True, timeout=2)
sys.exit(ran.stdout.strip() != str(wanted.value))
"""
SOME = (
    "always_equal",
    "hard_exit_zero",
    "raise_generator_exit",
    "endless_loop",
    "kill_everyone",
    "double_fork",
    "open_canary",
)
LIMITS = Limits(seconds=5.0)


def checker(folder: Path, text: str) -> list[str]:
    (folder / "checker.py").write_text(text, encoding="utf-8")
    return [sys.executable, "-S", str(folder / "checker.py"), "{candidate}", "{test}"]


def test_a_careless_checker_accepts_forgers_and_the_rest_is_rejected(tmp_path: Path) -> None:
    said: list[str] = []
    done = forge(checker(tmp_path, CARELESS), only=SOME, limits=LIMITS, say=said.append)
    assert set(done.accepted) == {"always_equal", "hard_exit_zero", "open_canary"}
    assert not done.passed
    assert said[0].startswith(f"runs {len(done.tried) - 1} hostile programs with your command")
    by_name = {program.name: program for program in done.tried}
    assert by_name["plainly_wrong"].exit_code == 1
    if "endless_loop" in by_name:  # with bubblewrap
        assert by_name["endless_loop"].exit_code is None
        assert not by_name["kill_everyone"].accepted  # and this process is alive to say so
    else:
        assert {"endless_loop", "kill_everyone", "double_fork"} <= done.left_out.keys()


def test_a_strict_checker_accepts_none(tmp_path: Path) -> None:
    some = ("always_equal", "int_subclass_equal", "hard_exit_zero", "claim_pass_on_stdout", "exit_at_load")
    done = forge(checker(tmp_path, STRICT), only=some, limits=LIMITS, say=[].append)
    assert done.passed
    assert len(done.tried) == 6


def test_programs_that_write_into_shared_folders_are_never_run(tmp_path: Path) -> None:
    names = [program.name for program in HOSTILE if "/tmp" in program.code or "/dev/shm" in program.code]
    done = forge(checker(tmp_path, CARELESS), only=names, say=[].append)
    assert [program.name for program in done.tried] == ["plainly_wrong"]
    assert done.left_out.keys() == set(names)
    assert {"leave_a_file", "fill_disk", "canary_by_mount"} <= set(names)


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        (["true"], {}, "must hold {candidate}"),
        (["no-such-checker", "{candidate}"], {}, "no-such-checker: no such command"),
        (["false", "{candidate}"], {}, "must accept a right program, and it ended with 1: it said nothing"),
        (["sleep", "30", "{candidate}"], {"limits": Limits(seconds=0.5)}, "must accept a right program"),
        (["true", "{candidate}"], {"kinds": ["forgery"]}, "kinds=forgery: expected forge, read, exhaust"),
        (["true", "{candidate}"], {"only": ["always_equl"]}, "did you mean 'always_equal'"),
    ],
)
def test_mistakes_are_one_line(command: list[str], options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("{", r"\{")):
        forge(command, say=[].append, **options)  # type: ignore[arg-type]


def test_a_checker_that_accepts_everything_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["forge", "--program", "not_a_number", "--json", str(tmp_path / "out.json"), "--", "true", "{candidate}"]
    assert run_cli(*words, monkeypatch=monkeypatch) == 1
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["accepted"] == ["plainly_wrong", "not_a_number"]
    assert written["passed"] is False
    out = capsys.readouterr().out
    assert "ACCEPTED plainly_wrong" in out
