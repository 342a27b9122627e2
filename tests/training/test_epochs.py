"""Every row of the first stream is trained once in every epoch, whatever the batch: seen in what a run writes."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import TrainerCallback

from holdfast.data import read_traces
from holdfast.tokens import tokenize_all
from holdfast.training import train
from holdfast.worlds.tokenizer import build_tokenizer
from invariants.launching import figures, launch, steps
from training.runs import config, run, weights

HOLD = {"data": "world:safety/train/forbidden", "objective": "distill", "name": "hold", "limit": 5, "weight": 0.5}
FSDP = ("--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP")


def first_rows(uneven_rows: Path, num: int, folder: Path) -> Path:
    lines = uneven_rows.read_text(encoding="utf-8").splitlines(keepends=True)
    path = folder / f"{num}-rows.jsonl"
    path.write_text("".join((lines * 2)[:num]), encoding="utf-8")
    return path


def num_targets(path: Path) -> int:
    rows, _ = tokenize_all(read_traces(str(path)).traces, build_tokenizer())
    return sum(row.num_targets for row in rows)


def settings(
    folder: Path, model: Path, rows: Path, *others: dict[str, Any], objective: str = "csft_pa", **training: Any
):
    task = {"data": str(rows), "objective": objective, "name": "task"}
    how = {"max_steps": None, "epochs": 2, "batch_size": 32, "micro_batch": 8, **training}
    return config(folder / "run", model, streams=[task, *others], training=how)


@pytest.mark.parametrize("packing", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("others", [(), (HOLD,)], ids=["alone", "two-streams"])
@pytest.mark.parametrize("num_rows", [1, 10, 47])
def test_every_row_is_trained_once_an_epoch(
    num_rows: int,
    others: tuple[dict[str, Any], ...],
    packing: bool,
    tmp_path: Path,
    small_model: Path,
    uneven_rows: Path,
) -> None:
    rows = first_rows(uneven_rows, num_rows, tmp_path)
    said: list[str] = []
    made = settings(tmp_path, small_model, rows, *others, packing=packing)
    run(made, said)
    log = steps(tmp_path / "run")
    of_step = 32 // (1 + len(others))
    per_epoch = -(-num_rows // of_step)
    assert len(log) == 2 * per_epoch
    num_tokens = num_targets(rows)
    for epoch in (0, 1):
        in_epoch = log[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert sum(row["streams"]["task"]["tokens"] for row in in_epoch) == num_tokens
        assert in_epoch[-1]["epoch"] == epoch + 1
    assert any(f"task: {num_rows} row" in line and "each seen twice" in line for line in said)


@pytest.fixture(scope="module", params=[1, 47])
def rows_and_figures(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, small_model: Path, uneven_rows: Path
) -> tuple[Path, list[float]]:
    """One row or 47, and the figures of the run whose steps are one pass each."""
    folder = tmp_path_factory.mktemp("whole")
    rows = first_rows(uneven_rows, request.param, folder)
    run(settings(folder, small_model, rows, HOLD, micro_batch=32))
    return rows, figures(folder / "run")


@pytest.mark.parametrize(
    "changes", [{"micro_batch": 4}, {"micro_batch": 1, "packing": True}, {"micro_batch": 8, "head": "logits"}]
)
def test_micro_batches_without_rows_change_nothing(
    changes: dict[str, Any], rows_and_figures: tuple[Path, list[float]], tmp_path: Path, small_model: Path
) -> None:
    rows, whole = rows_and_figures
    run(settings(tmp_path, small_model, rows, HOLD, **changes))
    assert figures(tmp_path / "run") == pytest.approx(whole, rel=2e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("num_rows", "flags"),
    [
        pytest.param(1, (), id="1-ddp"),
        pytest.param(47, FSDP, id="47-fsdp2"),
        pytest.param(47, (), marks=pytest.mark.slow, id="47-ddp"),  # tests/invariants divides uneven rows by ddp
        pytest.param(1, FSDP, marks=pytest.mark.slow, id="1-fsdp2"),
    ],
)
def test_two_processes(
    num_rows: int, flags: tuple[str, ...], tmp_path: Path, small_model: Path, uneven_rows: Path
) -> None:
    """``sft`` needs no anchor and ``distill`` does: in some passes one process has rows for the anchor and one has none."""
    rows = first_rows(uneven_rows, num_rows, tmp_path)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run(settings(whole, small_model, rows, HOLD, objective="sft", micro_batch=32))
    made = settings(cut, small_model, rows, HOLD, objective="sft", micro_batch=16)
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(made.model_dump(mode="json")), encoding="utf-8")
    done = launch("train", str(file), "--quiet", flags=flags)
    assert done.returncode == 0, done.stderr
    assert figures(cut / "run") == pytest.approx(figures(whole / "run"), rel=2e-5, abs=1e-7)


class _Killed(TrainerCallback):
    """Dies when the step after ``last`` begins."""

    def __init__(self, last: int) -> None:
        self.last = last

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.last:
            raise RuntimeError("killed")


@pytest.mark.parametrize(
    ("last", "more"),  # in the middle of an epoch, between two, in the second
    [(1, {}), (2, {}), (3, {}), (2, {"tokens_per_pass": 150, "micro_batch": None})],
)
def test_a_resumed_run_is_the_same_bit_for_bit(
    last: int, more: dict[str, Any], tmp_path: Path, small_model: Path, uneven_rows: Path
) -> None:
    rows = first_rows(uneven_rows, 19, tmp_path)
    how = {"batch_size": 16, "save_every": 1, "epochs": 2.5, **more}
    whole = settings(tmp_path / "whole", small_model, rows, HOLD, **how)
    broken = settings(tmp_path / "broken", small_model, rows, HOLD, **how)
    result = run(whole)
    assert result.num_steps == 2 * 3 + 2  # 8 rows of a step: 8, 8, 3 twice, and 10 of 19 rows: 8, 2
    with pytest.raises(RuntimeError, match="killed"):
        train(broken, say=lambda _: None, progress=False, callbacks=[_Killed(last)])
    said: list[str] = []
    resumed = run(broken, said)
    assert any("resuming from" in line for line in said)
    assert Path(whole.run, "steps.jsonl").read_text() == Path(broken.run, "steps.jsonl").read_text()
    one, other = weights(result.model), weights(resumed.model)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
