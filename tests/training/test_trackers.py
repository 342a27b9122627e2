"""What a run tells TensorBoard, W&B and MLflow is what it writes to steps.jsonl, row by row and figure by figure."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from holdfast.config import InputError
from training.runs import config, run, steps
from waiting import wait_for

Logged = dict[int, dict[str, float]]
"""By step, figures by name."""


def written(folder: Path) -> Logged:
    """The rows of steps.jsonl with flat names."""

    def flat(row: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
        for name, value in row.items():
            yield from flat(value, f"{prefix}{name}/") if isinstance(value, dict) else [(prefix + name, value)]

    return {row["step"]: dict(flat(row)) for row in steps(folder)}


def assert_same(logged: Logged, folder: Path, *, digits: float = 0.0) -> None:
    rows = written(folder)
    assert len(rows) == 3
    for step, row in rows.items():
        assert row.keys() <= logged[step].keys(), step
        for name, value in row.items():
            assert math.isclose(logged[step][name], value, rel_tol=digits), (step, name)


def test_tensorboard(tmp_path: Path, small_model: Path) -> None:
    pytest.importorskip("tensorboard", reason="pip install tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(config(tmp_path / "run", small_model, report_to=["tensorboard"], training={"max_steps": 3}))
    (events,) = (tmp_path / "run").rglob("events.out*")
    reader = EventAccumulator(str(events.parent)).Reload()
    logged: Logged = {}
    for tag in reader.Tags()["scalars"]:
        for event in reader.Scalars(tag):
            logged.setdefault(event.step, {})[tag.removeprefix("train/")] = event.value
    assert_same(logged, tmp_path / "run", digits=1e-6)  # TensorBoard keeps float32


def test_mlflow(tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="pip install mlflow-skinny")
    store = f"file:{tmp_path / 'mlruns'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    run(config(tmp_path / "run", small_model, report_to=["mlflow"], training={"max_steps": 3}))
    mlflow.end_run()
    client = mlflow.MlflowClient(store)
    (kept,) = client.search_runs(["0"])
    logged: Logged = {}
    for name in kept.data.metrics:
        for metric in client.get_metric_history(kept.info.run_id, name):
            logged.setdefault(metric.step, {})[name] = metric.value
    assert_same(logged, tmp_path / "run")


def test_wandb_offline(tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="pip install wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    run(config(tmp_path / "run", small_model, report_to=["wandb"], training={"max_steps": 3}))
    wandb.finish()
    (file,) = tmp_path.rglob("*.wandb")
    wait_for(lambda: wandb_records(file)[-1:] and wandb_records(file)[-1].WhichOneof("record_type") == "exit")
    logged: Logged = {}
    for items in wandb_history(file):
        step = int(items.get("train/global_step", -1))
        logged.setdefault(step, {}).update({name.removeprefix("train/"): value for name, value in items.items()})
    assert_same(logged, tmp_path / "run")


def wandb_records(file: Path) -> list[Any]:
    """Of an offline run's file: a leveldb log of protobuf records."""
    from wandb.proto.wandb_internal_pb2 import Record

    return [Record.FromString(data) for data in leveldb_records(file.read_bytes())]


def wandb_history(file: Path) -> Iterator[dict[str, Any]]:
    for record in wandb_records(file):
        if record.WhichOneof("record_type") == "history":
            names = (item.key or "/".join(item.nested_key) for item in record.history.item)
            values = (json.loads(item.value_json) for item in record.history.item)
            yield dict(zip(names, values, strict=True))


def leveldb_records(content: bytes, header: int = 7, block: int = 32768) -> Iterator[bytes]:
    """Whole records. A piece has checksum (4 bytes), length (2) and type (1: whole, 2: first, 3: middle, 4: last)."""
    at, pieces = header, b""
    while at + 7 <= len(content):
        if block - at % block < 7:
            at += block - at % block
            continue
        length, kind = struct.unpack_from("<HB", content, at + 4)
        pieces += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield pieces
            pieces = b""


@pytest.mark.skipif(find_spec("comet_ml") is not None, reason="the tracker that is not installed here is")
def test_a_tracker_that_is_not_installed_is_one_line(tmp_path: Path, small_model: Path) -> None:
    with pytest.raises(InputError, match=r"field 'report_to': comet_ml is not installed: pip install comet_ml"):
        run(config(tmp_path / "run", small_model, report_to=["comet_ml"]))
    assert not (tmp_path / "run").exists()
