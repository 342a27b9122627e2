"""configs/*.yaml: each opens with its command, loads, names an objective that exists, and runs."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import ROOT
from holdfast import objectives
from holdfast.config import TrainConfig, load_config
from holdfast.data import read_traces
from holdfast.records import Role
from holdfast.tokens import apply_undo, find_undo_id, tokenize_all
from holdfast.training.streams import bind_objective
from holdfast.worlds import world_traces
from holdfast.worlds.tokenizer import build_tokenizer
from invariants.launching import run_cli, steps
from waiting import PATIENCE

# your-model.yaml is for a model and rows of the reader's own: test_your_model.py
CONFIGS = sorted(path for path in (ROOT / "configs").glob("*.yaml") if path.stem != "your-model")
QUICK = ("anchored", "csft_pa", "undo_hard_context")
each_config = pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)


@each_config
def test_it_opens_with_the_command_that_runs_it_and_says_what_it_shows(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# holdfast train configs/{path.name}"
    comments = [line for line in lines if line.startswith("# ")]
    assert 3 <= len(comments) <= 5
    assert lines[: len(comments)] == comments


@each_config
def test_it_loads_and_runs_on_the_embedded_models(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = load_config(TrainConfig, path)
    assert config.run == f"runs/{path.stem.replace('_', '-')}"
    assert config.model.name.startswith("tiny:")
    for number, stream in enumerate(config.streams):
        bind_objective(stream, number)
        is_world = stream.data.startswith("world:")
        data = world_traces(stream.data, limit=4) if is_world else read_traces(stream.data)
        assert data.traces


def test_every_objective_has_a_config_of_its_name() -> None:
    for name in objectives.REGISTRY:
        config = load_config(TrainConfig, ROOT / "configs" / f"{name}.yaml")
        assert [stream.objective for stream in config.streams] == [name]


def test_the_traces_fit_the_embedded_tokenizer() -> None:
    """Every word is known, every error is taken back token by token, and what is left is the answer."""
    dataset = read_traces(ROOT / "configs" / "data" / "backtrack.jsonl")
    tokenizer = build_tokenizer()
    tokenizer.add_tokens(["<UNDO>"], special_tokens=True)
    rows, _ = tokenize_all(dataset.traces, tokenizer)
    undo = find_undo_id(tokenizer)
    assert undo is not None
    assert len(rows) >= 12
    for trace, row in zip(dataset.traces, rows, strict=True):
        assert tokenizer.unk_token_id not in row.ids
        assert row.roles.count(Role.ERROR) == row.roles.count(Role.UNDO) > 0
        seen = tokenizer.decode(apply_undo(row.ids, undo), skip_special_tokens=True).split()
        assert seen == " ".join(turn.visible for turn in trace.turns).split()


def overrides(path: Path, folder: Path) -> list[str]:
    changed = [f"run={folder / 'run'}", "training.max_steps=2"]
    if load_config(TrainConfig, path).anchor.cache:
        changed.append(f"anchor.cache={folder / 'cache'}")
    return changed


def check_run(path: Path, run: Path) -> None:
    rows = steps(run)
    assert [row["step"] for row in rows] == [1, 2]
    assert all(math.isfinite(row["loss"]) and row["nll"] > 0 for row in rows)
    weights = "adapter_model" if load_config(TrainConfig, path).lora else "model"
    assert (run / "model" / f"{weights}.safetensors").is_file()


@pytest.mark.parametrize("name", QUICK)
def test_it_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    path = ROOT / "configs" / f"{name}.yaml"
    command = ["train", f"configs/{path.name}", *overrides(path, tmp_path), "--quiet"]
    assert run_cli(*command, monkeypatch=monkeypatch) == 0
    check_run(path, tmp_path / "run")


@pytest.mark.slow
@each_config
def test_every_one_runs_by_its_own_command(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "train", f"configs/{path.name}", *overrides(path, tmp_path)]
    done = subprocess.run(
        [*command, "--quiet", "--json", str(tmp_path / "out.json")],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert told == {"model": str(tmp_path / "run" / "model"), "steps": 2, "interrupted": False}
    check_run(path, tmp_path / "run")
