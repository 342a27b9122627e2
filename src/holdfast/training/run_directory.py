"""A run's folder: which config and data it belongs to, its lock, and ``steps.jsonl``.

``steps.jsonl`` has one row per logged step and is cut back on resume to the checkpoint the run goes on from. Each row is one
write, handed to the system at once: a killed run loses none and can tear only the last. Rows are not synced one by one, which
would cost a disk flush per step for rows that a power cut makes the run write again anyway; ``sync`` before a checkpoint makes
the rows up to that checkpoint as safe as the checkpoint."""

from __future__ import annotations

import difflib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from holdfast.config import FieldError, InputError, dump_config
from holdfast.config.base import Settings
from holdfast.training.checkpoints import durable
from holdfast.training.checkpoints.durable import CheckpointError
from holdfast.training.processes import try_lock


class RunDirectory:
    """Paths of a run. Opening it for another config or for changed data is refused with the difference."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.data = self.path / "data.json"
        self.own_code = self.path / "own_code.json"
        self.steps = self.path / "steps.jsonl"
        self.timing = self.path / "timing.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.model = self.path / "model"
        self.finished = self.path / "finished.json"

    def check(self, config: Settings, data: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Make sure that the folder is not there yet, or is this very run's; without ``data``, as far as settings tell."""
        if self.path.exists() and not self.path.is_dir():
            raise FieldError("run", f"{self.path} is a file; expected a folder")
        if not self.path.exists():
            return
        for path, text in self._contents(config, data).items():
            if not path.exists():
                continue
            old = path.read_text(encoding="utf-8", errors="replace")
            if path == self.config:
                old = _as_in(self.path, old)
            if old != text:
                lines = difflib.unified_diff(old.splitlines(), text.splitlines(), "there", "now", lineterm="", n=0)
                changed = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
                raise InputError(
                    f"{path}: this run was started with other settings; choose another run:, or restore them:\n"
                    + "\n".join(f"  {line}" for line in changed)
                )

    def check_code(self, code: Mapping[str, str | None]) -> list[str]:
        """Raise ``InputError`` where the run was started with other code of an objective; return those that cannot be compared.

        ``code``: of the user's own objectives, see ``function_hash``.
        """
        try:
            there = dict(json.loads(self.own_code.read_text(encoding="utf-8"))) if self.own_code.exists() else {}
        except (ValueError, TypeError):
            raise InputError(
                f"{self.own_code}: is damaged; delete it, and the run goes on without comparing code"
            ) from None
        unknown = []
        for name, now in code.items():
            old = there.get(name)
            if not (now and old) or now.partition(",")[0] != old.partition(",")[0]:
                unknown.append(name)
            elif now != old:
                raise InputError(
                    f"{self.path}: this run was started with other code of the objective '{name}'; choose another run:,"
                    " or restore the code"
                )
        return unknown

    def claim(
        self, config: Settings, data: Sequence[Mapping[str, Any]], code: Mapping[str, str | None] | None = None
    ) -> None:
        """Make the folder this run's. Called after the settings are checked, so that a mistake leaves no folder."""
        self.check(config, data)
        self.path.mkdir(parents=True, exist_ok=True)
        contents = self._contents(config, data)
        if code:
            contents[self.own_code] = json.dumps(code, indent=2) + "\n"
        for path, text in contents.items():
            if not path.exists():
                partial = path.with_name(f".{path.name}")
                durable.write_file(partial, text.encode())
                partial.replace(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training here: both would write one log and delete each other's checkpoints.

        A killed process holds nothing, so there is no stale lock to remove.
        """
        folder = os.open(self.path, os.O_RDONLY)
        try:
            if not try_lock(folder):
                raise InputError(f"{self.path}: another process is training here; wait for it, or choose another run:")
            yield
        finally:
            os.close(folder)

    def _contents(self, config: Settings, data: Sequence[Mapping[str, Any]] | None) -> dict[Path, str]:
        settings = {self.config: dump_config(config.model_copy(update={"run": str(self.path)}))}
        return settings if data is None else {**settings, self.data: json.dumps(list(data), indent=2) + "\n"}


def _as_in(folder: Path, config: str) -> str:
    """The config with ``run: folder``: a run that was moved, or whose folder is written in another way, is the same run."""
    try:
        settings = yaml.safe_load(config)
    except yaml.YAMLError:
        return config  # damaged: ``check`` shows the difference
    if not isinstance(settings, dict):
        return config
    return yaml.safe_dump({**settings, "run": str(folder)}, sort_keys=False, allow_unicode=True)


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
