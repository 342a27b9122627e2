"""A run's folder: which config and data it belongs to, and that nobody else's run continues in it."""

from __future__ import annotations

import difflib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.config import InputError, dump_config
from holdfast.config.base import Settings
from holdfast.training import durable


class RunDirectory:
    """Paths of a run. Opening it for another config or for changed data is refused with the difference."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.data = self.path / "data.json"
        self.steps = self.path / "steps.jsonl"
        self.timing = self.path / "timing.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.model = self.path / "model"
        self.finished = self.path / "finished.json"

    def check(self, config: Settings, data: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Make sure that the folder is not there yet, or is this very run's; without ``data``, as far as settings tell."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"field 'run': {self.path} is a file; expected a folder")
        for path, text in self._contents(config, data).items():
            old = path.read_text(encoding="utf-8") if path.exists() else text
            if old != text:
                lines = difflib.unified_diff(old.splitlines(), text.splitlines(), "there", "now", lineterm="", n=0)
                changed = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
                raise InputError(
                    f"{path}: this run was started with other settings; choose another run:, or restore them:\n"
                    + "\n".join(f"  {line}" for line in changed)
                )

    def claim(self, config: Settings, data: Sequence[Mapping[str, Any]]) -> None:
        """From here on the folder is this run's: once everything that can be wrong with its settings has been seen."""
        self.check(config, data)
        self.path.mkdir(parents=True, exist_ok=True)
        for path, text in self._contents(config, data).items():
            if not path.exists():
                partial = path.with_name(f".{path.name}")
                durable.write_file(partial, text.encode())
                partial.replace(path)

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process trains here meanwhile: both would write one log and delete each other's checkpoints.

        A killed process holds nothing, so there is no stale lock to remove.
        """
        folder = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{self.path}: another process is training here; wait for it, or choose another run:"
                ) from None
            except OSError:  # some network file systems have no locks
                pass
            yield
        finally:
            os.close(folder)

    def _contents(self, config: Settings, data: Sequence[Mapping[str, Any]] | None) -> dict[Path, str]:
        settings = {self.config: dump_config(config)}
        return settings if data is None else {**settings, self.data: json.dumps(list(data), indent=2) + "\n"}
