"""A run's folder: which config and data it belongs to, and that nobody else's run continues in it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.config import InputError, TrainConfig, dump_config
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

    def claim(self, config: TrainConfig, data: Sequence[Mapping[str, Any]]) -> None:
        """Make the folder, or make sure that it is this very run's."""
        self._same_or_write(self.config, dump_config(config))
        self._same_or_write(self.data, json.dumps(list(data), indent=2) + "\n")

    def _same_or_write(self, path: Path, text: str) -> None:
        if path.exists():
            old = path.read_text(encoding="utf-8")
            if old != text:
                lines = difflib.unified_diff(old.splitlines(), text.splitlines(), "there", "now", lineterm="", n=0)
                changed = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
                raise InputError(
                    f"{path}: this run was started with other settings; choose another run:, or restore them:\n"
                    + "\n".join(f"  {line}" for line in changed)
                )
            return
        self.path.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}")
        durable.write_file(partial, text.encode())
        partial.replace(path)
