"""steps.jsonl: whole rows, cut back on resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.training.checkpoints.durable import CheckpointError
from holdfast.training.run_directory import StepLog


@pytest.fixture
def log(tmp_path: Path) -> StepLog:
    log = StepLog(tmp_path / "steps.jsonl")
    for step in (1, 2, 2, 3):
        log.append({"step": step, "loss": 1 / step})
    return log


def rows(log: StepLog) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.path.read_text().splitlines()]


def test_rows_are_whole_lines(log: StepLog) -> None:
    log.append({"step": 4, "loss": float("nan"), "norm": float("inf")})
    log.sync()
    assert [row["step"] for row in rows(log)] == [1, 2, 2, 3, 4]
    assert rows(log)[-1] == {"step": 4, "loss": None, "norm": None}
    assert log.path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize(("step", "left"), [(0, []), (1, [1]), (2, [1, 2, 2]), (3, [1, 2, 2, 3]), (9, [1, 2, 2, 3])])
def test_rewind_keeps_the_rows_up_to_a_step(log: StepLog, step: int, left: list[int]) -> None:
    assert log.rewind(step) == len(left)
    assert [row["step"] for row in rows(log)] == left


def test_a_row_torn_at_any_byte_is_dropped(log: StepLog) -> None:
    """Even when only the newline is missing: a row appended to it would spoil both."""
    data = log.path.read_bytes()
    last = data.rindex(b"\n", 0, -1) + 1
    for size in range(last + 1, len(data)):
        log.path.write_bytes(data[:size])
        assert log.rewind(3) == 3
        assert log.path.read_bytes() == data[:last]


def test_zeros_after_a_power_cut_are_dropped(log: StepLog) -> None:
    data = log.path.read_bytes()
    log.path.write_bytes(data + b"\0" * 50 + b"\n" + b"\0" * 20)
    assert log.rewind(3) == 4
    assert log.path.read_bytes() == data


def test_damage_before_rows_that_count_is_refused_by_line(log: StepLog) -> None:
    lines = log.path.read_bytes().splitlines(keepends=True)
    damaged = b"".join([lines[0], b"garbage\n", *lines[2:]])
    log.path.write_bytes(damaged)
    with pytest.raises(CheckpointError, match=r"steps\.jsonl:2: damaged or out of order: line 3 goes on with step 2"):
        log.rewind(3)
    assert log.path.read_bytes() == damaged
    assert log.rewind(1) == 1  # nothing that counts follows the damage


def test_no_log_yet(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "steps.jsonl")
    log.sync()
    assert log.rewind(5) == 0
