"""Every command of `holdfast` on its smallest real job, in a process that finds nothing but the core dependencies.

`holdfast demo` under the same hook: test_demo.py.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from holdfast.cli import app
from holdfast.config.extras import EXTRAS
from newcomer import verbs
from newcomer.core_packages import core_closure, core_environment, other_packages

CONFIG = """
run: runs/mine
model: {name: tiny:aligned}
streams:
  - {data: "world:safety/tune/guide", objective: csft, limit: 16}
  - {data: "world:safety/train/forbidden", objective: distill, limit: 8}
training: {max_steps: 2, batch_size: 8, lr: 1e-3}
"""
MATRIX = (
    "run: runs/matrix\nattacks: [harmful_examples]\ndefences: [untouched]\nseeds: [0]\nnum_requests: 2\nworkers: 1\n"
)
RL = "run: runs/rl\nmodel: tiny:aligned\ndata: rows.jsonl\nrl: {steps: 1, prompts_per_step: 1, group: 2, lr: 1e-3}\n"
ROW = {"prompt": "count : red", "response": "it is 1 . wait , it is 2 .", "answer": "2"}
SQL = {"question": "how many ?", "context": "CREATE TABLE t (a INT)", "answer": "SELECT COUNT(*) FROM t"}
CHECKER = """
import sys
program, test = (open(path).read() for path in sys.argv[1:3])
sys.exit(test.split("==")[1].strip() not in program)
"""
FILES: dict[str, str | list[dict[str, Any]]] = {
    "mine.yaml": CONFIG,
    "matrix.yaml": MATRIX,
    "rl.yaml": RL,
    "checker.py": CHECKER,
    "rows.jsonl": [{**ROW, "prompt": f"count : {colour}"} for colour in ("red", "blue")],
    "scores.jsonl": [{"prompt": f"p{number}", "unsafe": False, "score": 0.9} for number in range(60)],
    "pools.jsonl": [{"prompt": "p", "reward": reward, "safe": True} for reward in (0.1, 0.9)],
    "sql.jsonl": [SQL],
    "dialogues.jsonl": [{"dialogue": "a : hello", "summary": "hello"}],
    "rows.parquet": "not read",
}

WORK = [
    "doctor",
    "validate world:safety/tune/guide",
    "tokens world:safety/tune/guide --model tiny:aligned",
    "train mine.yaml --quiet",
    "audit runs/mine/model --anchor tiny:aligned --limit 2 --out runs/mine",
    "attack matrix.yaml --write matrix.md",
    "generate tiny:aligned count:red --max-new-tokens 4",
    "generate tiny:aligned --data world:safety/test/forbidden --limit 1 --n 2 --safe --temperature 1",
    "oversee calibrate scores.jsonl --n 1",
    "oversee curve pools.jsonl",
    "traces make world:safety/tune/guide traces.jsonl --limit 4",
    "diagnose calibration rows.jsonl",
    "diagnose attribution rows.jsonl --model tiny:aligned --anchor tiny:base --objective sft --no-growth",
    "report runs/mine",
    "report runs/matrix",
    "report runs/mine --card",
    "forge --program exit_zero -- python3 checker.py {candidate} {test}",
    "ls runs",
    "recipes",
    "recipes defended",
    "compare runs/mine runs/mine",
    "tasks lm-eval tasks --requests rows.jsonl --safe-requests rows.jsonl",
]
"""What the core does."""

NEEDS_EXTRA = {
    "serve": "serve",
    "view . --no-open": "serve",
    "audit tiny:aligned --no-world --sql sql.jsonl": "eval",
    "audit tiny:aligned --no-world --summaries dialogues.jsonl": "eval",
    "audit http://127.0.0.1:9/v1 --model-name m --requests rows.jsonl --judge refusal_phrases": "serve",
    "attack matrix.yaml run=runs/cluster --engine ray": "cluster",
    "train rl.yaml": "rl",
    "train mine.yaml run=runs/q lora.r=2 lora.quantize=nf4": "gpu",
    "validate rows.parquet": "data",
    "validate hf:owner/name": "data",
    "tasks inspect-log runs/mine mine.eval": "inspect",
}
"""What an extra is needed for, and which."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """By command: exit code, stdout and stderr."""
    folder = tmp_path_factory.mktemp("a place")
    for name, content in FILES.items():
        text = content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content)
        (folder / name).write_text(text, encoding="utf-8")
    commands = [*WORK, *NEEDS_EXTRA]
    (folder / "commands.json").write_text(json.dumps([command.split() for command in commands]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, verbs.__file__, "commands.json"],
        cwd=folder,
        env=core_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(commands, json.loads(done.stdout.splitlines()[-1]), strict=True))


def test_every_command_runs_or_says_which_extra_it_needs(outcomes: dict[str, dict[str, Any]]) -> None:
    broken = {command: outcomes[command] for command in WORK if outcomes[command]["code"] != 0}
    assert not broken, "\n".join(
        f"holdfast {command}: {told['code']}\n{told['err']}" for command, told in broken.items()
    )
    for command, extra in NEEDS_EXTRA.items():
        told = outcomes[command]
        *_, line = told["err"].splitlines()
        assert told["code"] == 2, (command, told)
        assert line.startswith("holdfast: "), (command, told)
        assert line.endswith(f': pip install "holdfast[{extra}]"'), (command, line)
        assert "Traceback" not in told["err"], (command, told)


def test_no_command_is_left_out() -> None:
    """A new one must be put on a list above."""
    names = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    assert names == {command.split()[0] for command in (*WORK, *NEEDS_EXTRA)} | {"demo", "reproduce"}  # of the studies


def test_what_is_blocked() -> None:
    """The hook itself: optional packages are gone, core ones are not."""
    blocked = set(other_packages())
    assert {"sqlglot", "rouge_score", "trl", "ray", "starlette", "uvicorn", "pyarrow", "pytest"} <= blocked
    assert not blocked & {"torch", "transformers", "pydantic", "yaml", "markupsafe", "tokenizers", "holdfast"}
    assert {"torch", "numpy", "huggingface-hub"} <= core_closure()
    names = [name for packages in EXTRAS.values() for name in packages if name in blocked and find_spec(name)]
    code = (
        f"import importlib.util as u; print([n for n in {names!r} if u.find_spec(n)], u.find_spec('torch') is not None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=core_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[] True"
