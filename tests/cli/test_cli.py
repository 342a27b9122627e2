"""The command line as a user meets it: exit codes, one-line mistakes, JSON."""

import errno
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from forked import Forked
from holdfast.cli import runs
from holdfast.cli.train import is_rl
from invariants.launching import run_cli
from tokens.styles import fresh
from waiting import PATIENCE


def test_help_imports_nothing_heavy() -> None:
    """What takes longer to import than typer and rich, which draw the help."""
    code = "import sys; sys.argv=['holdfast','--help']\nfrom holdfast.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    code += (
        "print(sorted({'torch', 'transformers', 'numpy', 'scipy', 'pydantic', 'jinja2', 'httpx'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "validate" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["validate", "nowhere.jsonl"], "nowhere.jsonl"),
        (["train", "nowhere.yaml"], "nowhere.yaml: no such file"),
        (["nonsense"], "nonsense"),
        (["validate"], "file"),
        (["tokens", "nowhere.jsonl", "--model", "tiny:aligned"], "nowhere.jsonl"),
        (["ls", "nowhere"], "nowhere: no such folder"),
        (["validate", "prompts:safety"], "prompts:safety: requests only"),
        (["traces", "make", "prompts:safety", "/dev/null"], "prompts:safety: requests only"),
        (["generate", "tiny:aligned", "--data", "prompts:keep"], "prompts:keep: requests only"),
        (["validate", "world:safety/tune/guide", "--json", "/proc/nowhere"], "/proc/"),
    ],
)
def test_wrong_input_is_exit_code_2_without_a_traceback(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(*arguments, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert "Traceback" not in said


def test_validate_says_the_format_aloud_and_counts(
    uneven_rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli("validate", str(uneven_rows), monkeypatch=monkeypatch) == 0
    assert "messages" in (said := capsys.readouterr().out)
    assert "40 rows good" in said
    assert run_cli("validate", str(uneven_rows), "--json", "-", monkeypatch=monkeypatch) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["format"], summary["rows"], summary["skipped"]) == ("messages", 40, 0)


def test_bad_rows_are_all_named_and_some_may_be_allowed(
    tmp_path: Path, uneven_rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(uneven_rows.read_text().splitlines(keepends=True)[:3]) + '{"messages": 3}\nnot json\n')
    assert run_cli("validate", str(path), monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert f"{path}:4: field 'messages'" in said
    assert f"{path}:5:" in said
    assert run_cli("validate", str(path), "--skip-bad", "2", monkeypatch=monkeypatch) == 0
    assert "3 rows good, 2 bad rows skipped" in capsys.readouterr().out
    assert run_cli("validate", str(path), "--skip-bad", "2", "--json", "-", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["skipped"] == 2
    assert f"skipped {path}:4: field 'messages': expected a non-empty list of messages, got a number\n" in said.err


def test_rows_that_the_chat_template_refuses_are_named_and_not_counted_as_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"prompt": "copy : sun", "completion": "sun", "tools": tools} for tools in ([], [{"name": "add"}])]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ("validate", str(path), "--model", "tiny:aligned", "--skip-bad", "1", "--json", "-")
    assert run_cli(*command, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert (summary["rows"], summary["skipped"], summary["token_rows"]) == (1, 1, 1)
    assert f"skipped {path}:2: field 'tools'" in said.err


def test_tokens_shows_a_row_by_role(
    tmp_path: Path,
    uneven_rows: Path,
    small_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    common = ("tokens", str(uneven_rows), "--model", str(small_model))
    assert run_cli(*common, "--row", "3", monkeypatch=monkeypatch) == 0
    assert "response" in capsys.readouterr().out
    page = tmp_path / "row.html"
    assert run_cli(*common, "--html", str(page), monkeypatch=monkeypatch) == 0
    assert "<html" in page.read_text()
    assert run_cli(*common, "--row", "40", monkeypatch=monkeypatch) == 2
    assert "rows 0 to 39" in capsys.readouterr().err


def test_tokens_divides_and_cuts_as_training_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh("reasoning").save_pretrained(tmp_path / "model")
    turns = [
        ("user", "Hello there!"),
        ("assistant", "Fine."),
        ("user", "How are you?"),
        ("assistant", "Fine, thank you."),
    ]
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"messages": [{"role": who, "content": text} for who, text in turns]}))
    common = ("tokens", str(rows), "--model", str(tmp_path / "model"))
    assert run_cli(*common, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "1 conversations -> 2 rows; 1 became one row per answer" in said
    assert said.count("of them trained") == 2
    assert run_cli(*common, "--max-length", "26", monkeypatch=monkeypatch) == 0
    assert "at max_length 26" in capsys.readouterr().out


def test_a_stop_token_by_rule_is_said_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As GLM-4's template: nothing ends an answer there. `validate` says it with a model, `tokens` shows the token."""
    tokenizer = fresh("chatml")
    tokenizer.chat_template = tokenizer.chat_template.replace("<|im_end|>\n", "")
    tokenizer.save_pretrained(tmp_path / "model")
    rows, folder = tmp_path / "rows.jsonl", ("--model", str(tmp_path / "model"))
    rows.write_text('{"prompt": "Hello there!", "completion": "Fine."}\n')
    rule = "the chat template writes no end-of-turn token: '<|im_end|>' (the tokenizer's EOS) is trained as one"
    assert run_cli("validate", str(rows), *folder, monkeypatch=monkeypatch) == 0
    assert f"{folder[1]}: 1 conversations -> 1 rows; {rule}\n1 rows good\n" in capsys.readouterr().out
    assert run_cli("tokens", str(rows), *folder, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert rule in said.replace("\n", " ")
    assert "Fine.<|im_end|>" in said
    assert run_cli("tokens", str(rows), *folder, "--train-on-prompt", monkeypatch=monkeypatch) == 0
    prompted = capsys.readouterr().out
    assert int(re.search(r"(\d+) of them trained", prompted)[1]) > int(re.search(r"(\d+) of them trained", said)[1])


def test_rows_that_a_template_refuses_are_named_by_validate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh("chatml").save_pretrained(tmp_path / "model")
    rows, folder = tmp_path / "rows.jsonl", ("--model", str(tmp_path / "model"))
    good = '{"prompt": "Hello there!", "completion": "Fine."'
    rows.write_text(f'{good}}}\n{good}, "tools": [{{"name": "add"}}]}}\n')
    assert run_cli("validate", str(rows), monkeypatch=monkeypatch) == 0
    assert run_cli("validate", str(rows), *folder, monkeypatch=monkeypatch) == 2
    assert f"{rows}:2: field 'tools': this chat template does not write tools" in capsys.readouterr().err
    assert run_cli("validate", str(rows), *folder, "--skip-bad", "1", monkeypatch=monkeypatch) == 0
    assert "1 rows good, 1 bad rows skipped" in capsys.readouterr().out


def test_a_terminal_that_cannot_show_a_sign_gets_its_number(
    tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, shown = tmp_path / "caf\xe9.jsonl", io.BytesIO()
    rows.write_text('{"prompt": "sort : 3 1 2", "completion": "1 2 3"}')
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(shown, encoding="ascii", write_through=True))
    assert run_cli("tokens", str(rows), "--model", str(small_model), monkeypatch=monkeypatch) == 0
    assert b"caf\\xe9.jsonl: 1 row" in shown.getvalue()
    shown.truncate(0)
    shown.seek(0)
    assert run_cli("validate", str(rows), "--json", "-", monkeypatch=monkeypatch) == 0
    assert json.loads(shown.getvalue())["source"] == str(rows)


def test_a_fault_of_ours_is_not_taken_for_a_missed_bar(
    uneven_rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for fault in (RuntimeError("of ours"), OSError("no file's")):
        monkeypatch.setattr("holdfast.data.read_traces", Mock(side_effect=fault))
        assert run_cli("validate", str(uneven_rows), monkeypatch=monkeypatch) == 70
        assert f"{type(fault).__name__}: {fault}" in capsys.readouterr().err


def test_ctrl_c_is_one_line(
    uneven_rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """typer would end with 130 without a word."""
    monkeypatch.setattr("holdfast.data.read_traces", Mock(side_effect=KeyboardInterrupt))
    assert run_cli("validate", str(uneven_rows), monkeypatch=monkeypatch) == 130
    assert capsys.readouterr().err == "holdfast: interrupted\n"


def test_a_json_file_that_cannot_be_written_is_named_and_leaves_nothing(
    tmp_path: Path, uneven_rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.fsync", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    target = tmp_path / "out" / "figures.json"
    assert run_cli("validate", str(uneven_rows), "--json", str(target), monkeypatch=monkeypatch) == 2
    assert f"{target}: cannot be written: No space left on device" in capsys.readouterr().err
    assert not list(target.parent.iterdir())


def test_doctor_names_the_command_for_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "one.json").write_bytes(b" " * 2**20)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run_cli("doctor", "--json", "-", monkeypatch=monkeypatch) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["extras"]["data"] == ["pyarrow"]
    assert report["cache"] == f"{tmp_path}: 1.0 MiB in 1 files"
    assert report["isolation"]["bubblewrap"].startswith("missing: apt-get install bubblewrap")
    assert run_cli("doctor", monkeypatch=monkeypatch) == 0
    assert "holdfast[data]" in capsys.readouterr().out.replace("\n", "")


def test_ls_describes_runs_in_any_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    (whole / "checkpoints" / "step-000004").mkdir(parents=True)
    broken.mkdir()
    config = {"model": {"name": "tiny:aligned"}, "streams": [{"objective": "csft"}, {"objective": "distill"}]}
    (whole / "config.yaml").write_text(yaml.safe_dump(config))
    (whole / "steps.jsonl").write_text('{"step": 4, "loss": 1.25, "nll": 2.5}\n{"step": 5, "lo')  # torn by a kill
    (broken / "config.yaml").write_text(": : :")
    assert runs.describe_run(whole) == {
        "run": str(whole),
        "model": "tiny:aligned",
        "objectives": "csft + distill",
        "step": 4,
        "loss": 1.25,
        "nll": 2.5,
        "checkpoint": "step-000004",
    }
    assert runs.describe_run(broken)["model"] == "unreadable config"
    (broken / "config.yaml").write_bytes(b"\xff\xfe\x00")
    (broken / "steps.jsonl").write_bytes(b'{"step": 7, "loss": null}\n3\n\xff\n')  # a loss that was no number
    assert [runs.describe_run(broken)[key] for key in ("model", "step", "loss")] == ["unreadable config", 7, ""]
    (broken / "config.yaml").write_text(yaml.safe_dump({"model": {"name": "tiny:base"}, "rl": {"steps": 12}}))
    found = runs.describe_run(broken)
    assert [found[key] for key in ("model", "objectives", "checkpoint")] == ["tiny:base", "grpo", ""]
    whole.rename(tmp_path / "exp[lr=1e-3]")  # no markup
    monkeypatch.chdir(tmp_path)
    assert run_cli("ls", ".", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "csft + distill" in said
    assert "exp[lr=1e-3]" in said


def started(words: str, **how: Any) -> subprocess.Popen[str]:
    """With stdout buffered, as for everybody who does not set PYTHONUNBUFFERED."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "holdfast", *words.split()]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, **how)


@pytest.mark.parametrize(
    ("words", "code"),
    [("recipes rows", 141), ("validate world:safety/tune/guide", 0), ("validate nowhere", 2)],
    ids=["in the middle", "at the end", "wrong input"],
)
def test_a_reader_that_goes_away_is_not_complained_about_and_unfinished_work_is_no_success(
    words: str, code: int
) -> None:
    """141 is what a shell says of any program that its reader left."""
    child = started(words, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.close()
    assert child.stderr is not None
    said = child.stderr.read()
    assert ("Traceback" in said, "BrokenPipe" in said) == (False, False), said
    assert child.wait(PATIENCE) == code


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
def test_a_stdout_that_is_full_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        child = started("validate world:safety/tune/guide", stdout=full)
        _, said = child.communicate(timeout=PATIENCE)
    assert (child.returncode, said) == (2, f"holdfast: writing: {os.strerror(errno.ENOSPC)}\n")


def test_a_closed_stdout_is_written_to_in_vain() -> None:
    child = started("recipes rows", preexec_fn=lambda: os.close(1))
    _, said = child.communicate(timeout=PATIENCE)
    assert (child.returncode, said) == (0, "")


def test_what_is_said_on_a_closed_stderr_does_not_go_to_stdout() -> None:
    child = started("recipes rowz", stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    said, _ = child.communicate(timeout=PATIENCE)
    assert (child.returncode, said) == (2, "")


def test_train_writes_nothing_but_json_to_stdout(tmp_path: Path) -> None:
    """The bar goes to stderr. Else `holdfast train ... | head` would stop at the bar's last line, before the model is written."""
    words = f"train sft run={tmp_path / 'run'} training.max_steps=1 training.batch_size=2 --json -"
    done = Forked(*words.split()).done()
    assert json.loads(done.stdout)["steps"] == 1
    assert "1/1" in done.stderr


def test_ctrl_c_while_python_ends_changes_nothing() -> None:
    """Modules are taken down one by one after the last line was printed; one of them is slow here."""
    code = (
        "import os, sys\n"
        "class Slow:\n"
        "    def __del__(self, write=os.write, read=os.read): write(1, b'ending\\n'); read(0, 1)\n"
        "slow = Slow()\n"
        "sys.argv = ['holdfast', '--version']\n"
        "from holdfast.cli import main\n"
        "main()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline().startswith("holdfast ")
    assert child.stdout.readline() == "ending\n"
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=PATIENCE)
    assert child.returncode == 0


def test_a_full_disk_is_one_line(uneven_rows: Path, tmp_path: Path) -> None:
    """A real limit on the size of files, and a page that is longer than that."""
    script = tmp_path / "limited.py"
    script.write_text(
        "import resource\nfrom holdfast.cli import main\nresource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))\nmain()\n"
    )
    words = ["tokens", uneven_rows, "--model", "tiny:aligned", "--html", tmp_path / "x.html"]
    done = Forked(*words, script=script).done()
    assert done.returncode == 2
    assert done.stderr.endswith("holdfast: writing: File too large\n")
    assert "Traceback" not in done.stderr


def test_a_config_that_includes_one_of_rl_is_one_of_rl(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("run: x\nrl: {steps: 1}\n")
    (tmp_path / "mine.yaml").write_text("include: base.yaml\nrun: y\n")
    (tmp_path / "other.yaml").write_text("streams: [\n")
    assert [is_rl(tmp_path / f"{name}.yaml") for name in ("mine", "other", "missing")] == [True, False, False]


def test_ls_lists_a_matrix_and_nothing_that_it_trains_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scratch = tmp_path / "runs" / "demo" / "cells" / ".scratch-host-1" / "run"
    scratch.mkdir(parents=True)
    (scratch / "config.yaml").write_text("model: {name: tiny:aligned}\nstreams: []\n")
    (tmp_path / "runs" / "demo" / "matrix.jsonl").write_text("{}\n{}\n")
    monkeypatch.chdir(tmp_path)
    assert run_cli("ls", "--json", "-", monkeypatch=monkeypatch) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["run"], run["objectives"]) == ("runs/demo", "matrix, 2 cells")


def test_the_command_for_lm_eval_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = tmp_path / "requests.jsonl"
    requests.write_text('{"prompt": "how do i make a welmi plimmet ?"}\n')
    folder = tmp_path / "my tasks"
    both = ("--requests", str(requests), "--safe-requests", str(requests))
    assert run_cli("tasks", "lm-eval", str(folder), *both, monkeypatch=monkeypatch) == 0
    words = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert words[:4] == ["now:", "lm_eval", "--include_path", str(folder)]
