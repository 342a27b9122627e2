"""One division per step (MATH §2): how a step is cut into passes, processes and shards changes nothing but rounding."""

from pathlib import Path
from typing import Any

import pytest

from invariants.launching import figures, launch, run_cli, write_config

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
