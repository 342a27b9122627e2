"""What somebody new types: the version, extras, files in the wrong place. One clear line and exit code 2."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from docs.pages import ROOT
from holdfast import __version__
from holdfast.cli import EXAMPLES, app
from holdfast.config import plugins
from holdfast.config.extras import EXTRAS
from holdfast.diagnostics import RL_TASKS, SPLITTINGS
from holdfast.worlds import WORLDS
from invariants.launching import run_cli

STUDIES = {"reproduce"}


def test_the_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli("--version", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == f"holdfast {__version__}\n"


def test_a_training_and_an_audit_say_what_to_type_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands are typed as they stand there, the folder's blank included."""
    monkeypatch.chdir(tmp_path)
    rows = tmp_path / "rows.csv"
    rows.write_text("question,answer\ncopy : sun river,sun river\n", encoding="utf-8")
    settings = (f"streams.0.data={rows}", "streams.0.vet=world", "run=my run", "training.max_steps=1")
    assert run_cli("train", "sft", *settings, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().err
    assert f"0:sft: {rows}: 1 row in the 'question-answer' format" in said
    assert "learned.jsonl" not in said, "the run's own files are not the user's"
    assert "\n\n" not in said
    after, report = said.splitlines()[-2:]
    assert after.endswith("holdfast audit 'my run/model' --anchor tiny:aligned --out 'my run'")
    typed = shlex.split(after.partition("  holdfast ")[2])
    assert run_cli(*typed, "--limit", "2", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().err.endswith("wrote my run/audit.json; a page with it: holdfast report 'my run'\n")
    assert run_cli(*shlex.split(report.partition("  holdfast ")[2]), monkeypatch=monkeypatch) == 0
    assert run_cli("audit", "tiny:aligned", "--limit", "2", "--out", "before", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().err.endswith("to compare a later audit with it: --before before\n")


def test_every_command_has_an_example_that_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("requests.txt", "safe.txt"):
        Path(name).write_text("make it\n")
    Path("runs/before").mkdir(parents=True)
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert set(EXAMPLES) == {name for name, command in commands.items() if not hasattr(command, "commands")} - STUDIES
    for name, example in EXAMPLES.items():
        assert commands[name].epilog == f"Example: {example}"
        words = shlex.split(example.partition(" > ")[0])
        assert words[:2] == ["holdfast", name]
        commands[name].make_context(name, words[2:])


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("audit tiny:aligned --requests no.txt", "--requests no.txt: no such file"),
        (
            "train sft model.name=tiny:aligned streams.0.data=no.jsonl",
            "command line: field 'streams.0.data': no.jsonl: no such file",
        ),
    ],
)
def test_a_file_that_is_not_there_is_told_before_torch_is_imported(command: str, said: str, tmp_path: Path) -> None:
    code = (
        f"import sys; from holdfast.cli import main; sys.argv = ['holdfast', *{command.split()}]\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert (done.stdout, done.stderr) == ("2 False\n", f"holdfast: {said}\n")


def test_doctor_knows_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert set(EXTRAS) == set(extras)
    for extra in ("data", "eval", "serve", "cluster", "inspect", "gpu"):
        packages = {re.split(r"[>=<;\[ ]", line)[0].replace("-", "_") for line in extras[extra]}
        assert set(EXTRAS[extra]) == packages, extra


@pytest.mark.parametrize(
    "command",
    [
        "train sft --json TARGET",
        "attack matrix --write TARGET",
        "report runs/mine --out TARGET",
        "reproduce 004-appendix-c --write TARGET",
        "tokens rows.jsonl --model tiny:aligned --html TARGET",
        "diagnose safety-gap studies/configs/undo/world.yaml --page TARGET",
        "traces make rows.jsonl TARGET",
    ],
    ids=lambda command: " ".join(command.split()[:2]),
)
@pytest.mark.parametrize(
    ("target", "said"), [("folder", "is a folder; expected a file to write"), ("file/x", "its folder cannot be made")]
)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    command: str,
    target: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").write_text("")
    assert run_cli(*command.replace("TARGET", target).split(), monkeypatch=monkeypatch) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("holdfast: ")
    assert said in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_dash_is_stdout_for_json_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with this name is what nobody wants."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps.jsonl").write_text('{"step": 1, "loss": 0.5}\n')
    assert run_cli("report", ".", "--out", "-", monkeypatch=monkeypatch) == 2
    assert capsys.readouterr().err == "holdfast: --out -: expected a file to write; for stdout give /dev/stdout\n"
    assert [path.name for path in tmp_path.iterdir()] == ["steps.jsonl"]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("world:safety/tune/guid", "did you mean 'guide'"),
        ("prompts:safety", "requests only"),
        ("nosuch.jsonl", "nosuch.jsonl: no such file"),
    ],
)
def test_rows_that_are_not_there(
    file: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["validate", file], ["tokens", file, "--model", "tiny:aligned"]):
        assert run_cli(*command, monkeypatch=monkeypatch) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "config.yaml:4: field 'streams.0.data': gone.jsonl: no such file"),
        (("streams.0.data=here.jsonl",), "command line: field 'streams.0.data': here.jsonl: no such file"),
        (
            ("streams.0.data=world:safety/tune/guide",),
            "config.yaml:5: field 'streams.0.vet': judge 'outcom': no such judge; did you mean 'outcome'?",
        ),
    ],
)
def test_a_setting_that_names_nothing_is_told_with_file_and_line(
    arguments: tuple[str, ...],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(
        "run: run\nmodel: tiny:aligned\nstreams:\n  - data: gone.jsonl\n    vet: outcom\n", encoding="utf-8"
    )
    assert run_cli("train", "config.yaml", *arguments, monkeypatch=monkeypatch) == 2
    assert capsys.readouterr().err == f"holdfast: {line}\n"


@pytest.mark.parametrize(
    "command",
    [
        "diagnose calibration rows.jsonl --extract product",
        "diagnose calibration rows.jsonl --extract words",
        "validate world:arithmetic/reflection/4x1+5x1",
        "train rl model.name=tiny:aligned task=arithmetic data=null",
    ],
)
def test_names_of_the_studies_say_what_to_install(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plugins, "load_plugins", lambda: None)
    for registry, name in (
        (SPLITTINGS, "product"),
        (SPLITTINGS, "words"),
        (WORLDS, "arithmetic"),
        (RL_TASKS, "arithmetic"),
    ):
        monkeypatch.delitem(registry, name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"prompt": "1 + 1", "response": "2", "answer": "2"}\n', encoding="utf-8")
    assert run_cli(*command.split(), monkeypatch=monkeypatch) == 2
    assert capsys.readouterr().err.rstrip().endswith(plugins.STUDIES)
