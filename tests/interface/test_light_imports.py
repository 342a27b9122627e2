"""What is imported without torch and its seconds; what a first answer and a first step import beyond torch and transformers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MODELS = ("torch", "transformers")


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("stats", ("numpy", "scipy", "torch")),
        ("records", ("scipy", "torch")),
        ("worlds", MODELS),
        ("judging", MODELS),
        ("serve.run", MODELS),
        ("view", MODELS),
    ],
)
def test_importing_it_is_cheap(name: str, absent: tuple[str, ...]) -> None:
    if name in ("serve.run", "view"):
        pytest.importorskip("uvicorn", reason="the extra serve is not installed")
    code = f"import sys, holdfast.{name}; print(*(module for module in {absent!r} if module in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "\n"


def test_importing_holdfast_imports_no_library_at_all() -> None:
    code = "import sys; before = set(sys.modules); import holdfast; print(*set(sys.modules) - before)"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {name.partition(".")[0] for name in printed} - sys.stdlib_module_names == {"holdfast"}


BY_NAME = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from holdfast.models.embedded import tiny_path

def libraries():
    return {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names

folder = tiny_path("tiny:aligned")
tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
model.generate(tokenizer("how do i bake bread", return_tensors="pt")["input_ids"], max_new_tokens=2)
theirs = libraries()
from typer.testing import CliRunner
from holdfast.cli import app
assert not CliRunner().invoke(app, ["generate", "tiny:aligned", "how do i bake bread", "--max-new-tokens", "2"]).exit_code
answered = libraries()
import peft
from transformers import Trainer
trainers = libraries()
import holdfast as hf
rows = [{"prompt": "how do i help you", "completion": "sorry , i can not help you"}] * 2
hf.train("tiny:aligned", [hf.Stream(rows)], run=sys.argv[1], max_steps=1, batch_size=2)
print("\\n" + json.dumps([sorted(answered - theirs), sorted(libraries() - trainers)]))
"""
OURS = {"holdfast", "holdfast_studies"}
SETTINGS_AND_SCREEN = {"pydantic", "pydantic_core", "annotated_types", "annotated_doc", "typing_inspection"} | {
    *("typer", "click", "shellingham", "rich", "pygments", "markdown_it", "mdurl", "yaml")
}


@pytest.mark.slow
def test_a_first_answer_and_a_first_step_import_little_of_their_own(tmp_path: Path) -> None:
    """What takes time is torch and transformers; `python -m benchmarks.first_answer` says how much."""
    ran = subprocess.run(
        [sys.executable, "-c", BY_NAME, str(tmp_path / "run")], check=True, capture_output=True, text=True
    )
    answering, training = json.loads(ran.stdout.splitlines()[-1])
    assert set(answering) <= OURS | SETTINGS_AND_SCREEN
    assert set(training) <= OURS | SETTINGS_AND_SCREEN
