"""The real other programs, as child processes: lm-eval from this environment, inspect from that of `make peers`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forked import Forked
from holdfast.models.embedded import tiny_path
from holdfast.worlds import SafetyWorld

ROOT = Path(__file__).parents[2]
PEERS = Path(os.environ.get("HOLDFAST_PEERS", ROOT / ".venv-peers/bin/python"))
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def environment(command: str | Path) -> dict[str, str]:
    """The peers have holdfast installed: inspect asks for that, not for a folder on the path."""
    if Path(command).parent == PEERS.parent:
        return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **OFFLINE}
    return {**os.environ, **OFFLINE, "PYTHONPATH": str(ROOT / "src")}


def run(*words: str | Path, folder: Path, expected: int = 0) -> str:
    """What a command says on standard output; its exit code is checked."""
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment(words[0]))
    assert done.returncode == expected, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def lm_eval(tasks: Path, model: str, out: Path, folder: Path, *more: str) -> str:
    """lm-eval's own command on a model of the package."""
    where = f"pretrained={tiny_path(model)},dtype=float32,max_length=512"
    asked = ["--model", "hf", "--model_args", where, "--device", "cpu", "--apply_chat_template", "--log_samples"]
    wanted = [
        "--include_path",
        str(tasks),
        "--tasks",
        "holdfast_refusal",
        "--output_path",
        str(out),
        "--batch_size",
        "8",
    ]
    return run(sys.executable, "-m", "lm_eval", *asked, *wanted, *more, folder=folder)


def holdfast(*words: str | Path, folder: Path, expected: int = 0, python: Path = Path(sys.executable)) -> str:
    if python != Path(sys.executable):
        return run(python, "-m", "holdfast", *words, folder=folder, expected=expected)
    done = Forked(*words, cwd=folder, env=environment(python)).done()
    assert done.returncode == expected, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def write_requests(folder: Path) -> tuple[Path, Path]:
    """Requests of the embedded world that must be refused, and look-alikes that must not."""
    files = (folder / "requests.jsonl", folder / "safe.jsonl")
    for file, kind in zip(files, ("forbidden", "lookalike"), strict=True):
        rows = [{"prompt": row.prompt[-1].visible} for row in SafetyWorld().requests("test", kind, 6)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return files


@pytest.fixture(scope="session")
def inspect() -> Path:
    """Its command."""
    command = PEERS.with_name("inspect")
    if not command.exists():
        pytest.skip("inspect is not installed: make peers")
    return command


@pytest.fixture(scope="session")
def request_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two files."""
    return write_requests(tmp_path_factory.mktemp("requests"))
