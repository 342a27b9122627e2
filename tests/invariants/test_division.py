"""One division per step (MATH §2): how a step is cut into passes, processes and shards changes nothing but rounding."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from invariants.launching import figures, launch, run_cli, steps, write_config

TOLERANCE = 2e-5  # float32, different orders of summation, four steps of AdamW


@pytest.fixture(scope="module")
def whole_step(tmp_path_factory: pytest.TempPathFactory, small_model: Path, uneven_rows: Path) -> list[float]:
    """16 rows in one pass of one process."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        config = write_config(folder, small_model, uneven_rows, training={"micro_batch": 16})
        assert run_cli("train", str(config), "--quiet", monkeypatch=patch) == 0
    return figures(folder / "run")


@pytest.mark.parametrize(
    "changes",
    [
        {"training": {"micro_batch": 8}},
        {"training": {"micro_batch": 1}},
        {"training": {"tokens_per_pass": 200}},
        {"training": {"tokens_per_pass": 200, "packing": True}},
        {"training": {"micro_batch": 4, "packing": True}},
        {"training": {"micro_batch": 16, "packing": True}},
        {"training": {"micro_batch": 16, "head": "logits"}},
        {"training": {"micro_batch": 16, "chunk_tokens": 7}},
        {"training": {"micro_batch": 16, "gradient_checkpointing": True}},
    ],
    ids=lambda changes: "-".join(f"{key}={value}" for key, value in changes["training"].items()),
)
def test_cutting_a_step_differently_gives_the_same_run(
    changes: dict[str, Any],
    whole_step: list[float],
    tmp_path: Path,
    small_model: Path,
    uneven_rows: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = write_config(tmp_path, small_model, uneven_rows, **changes)
    assert run_cli("train", str(config), "--quiet", monkeypatch=monkeypatch) == 0
    assert figures(tmp_path / "run") == pytest.approx(whole_step, rel=TOLERANCE, abs=1e-7)


def test_two_processes_give_the_run_of_one(
    whole_step: list[float], tmp_path: Path, small_model: Path, uneven_rows: Path
) -> None:
    config = write_config(tmp_path, small_model, uneven_rows, training={"micro_batch": 4})
    done = launch("train", str(config), "--quiet")
    assert done.returncode == 0, done.stderr
    assert figures(tmp_path / "run") == pytest.approx(whole_step, rel=TOLERANCE, abs=1e-7)


def test_fsdp2_shards_the_model_and_gives_the_same_run(
    whole_step: list[float], tmp_path: Path, small_model: Path, uneven_rows: Path
) -> None:
    """accelerate would fall back to DDP on CPU; the run itself says whether policy and anchor are sharded."""
    config = write_config(tmp_path, small_model, uneven_rows, training={"micro_batch": 4, "save_every": 2})
    flags = ("--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP")
    done = launch("train", str(config), "--quiet", flags=flags)
    assert done.returncode == 0, done.stderr
    assert "FSDP2: policy sharded over 2 processes; anchor sharded over 2 processes" in done.stderr
    assert figures(tmp_path / "run") == pytest.approx(whole_step, rel=TOLERANCE, abs=1e-7)


def rl_run(folder: Path, *, prompts: int, processes: int) -> subprocess.CompletedProcess[str]:
    """One pass of GRPO over eight questions, ``prompts`` in a step."""
    rows = [{"prompt": f"Is {number} even ?", "answer": "yes"} for number in range(8)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    rl = {"prompts_per_step": prompts, "group": 2, "lr": 1e-3, "max_new_tokens": 2, "epochs": 1}
    config = {"run": str(folder / "run"), "model": "tiny:base", "data": str(folder / "rows.jsonl"), "rl": rl}
    (folder / "rl.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return launch("train", str(folder / "rl.yaml"), processes=processes)


def test_a_step_of_grpo_has_as_many_prompts_on_two_processes_as_on_one(tmp_path: Path) -> None:
    """Each process took all of them: eight questions, four at a time, were one step instead of two."""
    done = rl_run(tmp_path, prompts=4, processes=2)
    assert done.returncode == 0, done.stderr
    assert [row["step"] for row in steps(tmp_path / "run")] == [1, 2]
    assert (done.stdout + done.stderr).count("trained model:") == 1


def test_prompts_that_cannot_be_dealt_to_the_processes_are_refused(tmp_path: Path) -> None:
    done = rl_run(tmp_path, prompts=3, processes=2)
    assert done.returncode == 2
    assert "field 'rl.prompts_per_step': 3 prompts cannot be dealt to 2 processes evenly" in done.stderr
    assert not (tmp_path / "run").exists()
