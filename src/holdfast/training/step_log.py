"""steps.jsonl: one row per logged step, cut back on resume to the checkpoint the run goes on from.

Each row is one write, handed to the system at once: a killed run loses none and can tear only the last. Rows are not
synced one by one, which would cost a disk flush per step for rows that a power cut makes the run write again anyway;
``sync`` before a checkpoint makes the rows up to that checkpoint as safe as the checkpoint.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from holdfast.training import durable
from holdfast.training.durable import CheckpointError


class StepLog:
    """The rows of a run, in order of their ``step``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, row: Mapping[str, object]) -> None:
        """Add a row, wholly or not at all. JSON has no NaN or infinity: they become null."""
        assert isinstance(row["step"], int), row
        durable.at_point("before-row")
        plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        try:
            durable.append(self.path, (json.dumps(plain, allow_nan=False) + "\n").encode())
        except OSError as error:
            advice = "free some space" if durable.is_full(error) else "mend this"
            raise CheckpointError(
                f"{self.path}: the row of step {row['step']} cannot be written: {error.strerror}; "
                f"{advice}, then run the same command again to go on from the last checkpoint"
            ) from error
        durable.at_point("after-row")

    def sync(self) -> None:
        """Wait until every row is on the disk: call it while saving a checkpoint."""
        if self.path.exists():
            durable.sync(self.path)

    def rewind(self, step: int) -> int:
        """Drop the rows after ``step`` and a torn last line; returns how many rows are left."""
        if not self.path.exists():
            return 0
        kept, size, dropped = 0, 0, None
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                at = _step_of(line)
                if at is None or at > step:
                    dropped = dropped or number
                elif dropped:
                    raise CheckpointError(
                        f"{self.path}:{dropped}: damaged or out of order: line {number} goes on with step {at}; "
                        "mend that line, or move the file away to begin a new log"
                    )
                else:
                    kept, size = number, size + len(line)
        durable.truncate(self.path, size)
        return kept


def _step_of(line: bytes) -> int | None:
    """The step of a whole row; None when the line is torn."""
    try:
        step = json.loads(line)["step"] if line.endswith(b"\n") else None
    except (ValueError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) else None
