"""steps.jsonl as it grows: new rows are read from where the last look ended, and kept as columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.reports.reading import finite
from holdfast.reports.text import named

MAX_COLUMNS = 240
MAX_LINE = 1 << 20
MAX_STEP = 1e12
LAST = (1 << 16, 1 << 22)  # bytes from the end in which the last row is looked for: a few first, then many
Key = tuple[str, ...]
"""("loss",), or ("streams", NAME, "nll")."""


class Log:
    """The rows of one JSON-lines file by column; None where a row has no such figure.

    A file that was cut back, as a resumed run does it, is read again from its beginning.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._forget()

    def _forget(self) -> None:
        self.steps: list[float] = []
        self.columns: dict[Key, list[float | None]] = {}
        self._offset, self._before = 0, b""

    def refresh(self) -> Log:
        """Read what is new. A last line without its end is left for the next time."""
        try:
            with self.path.open("rb") as file:
                start = max(0, self._offset - len(self._before))
                file.seek(start)
                if file.read(len(self._before)) != self._before:
                    self._forget()
                    file.seek(0)
                new = file.read()
        except OSError:
            self._forget()
            return self
        whole = new[: new.rfind(b"\n") + 1]
        for line in whole.split(b"\n"):
            row = read_row(line)
            if row is not None:
                self._add(row)
        self._offset += len(whole)
        self._before = (self._before + whole)[-256:]
        return self

    def _add(self, row: dict[str, Any]) -> None:
        step = finite(row["step"])
        assert step is not None
        while self.steps and self.steps[-1] >= step:  # rows that were written again
            self.steps.pop()
            for column in self.columns.values():
                column.pop()
        for key, value in _figures(row):
            if key not in self.columns:
                if len(self.columns) >= MAX_COLUMNS:
                    continue
                self.columns[key] = [None] * len(self.steps)
            self.columns[key].append(value)
        self.steps.append(step)
        for column in self.columns.values():
            del column[len(self.steps) :]  # two names that are shown alike
            column += [None] * (len(self.steps) - len(column))


def read_row(line: bytes) -> dict[str, Any] | None:
    """A whole row with its step, or None."""
    if not line.strip() or len(line) > MAX_LINE:
        return None
    try:
        row = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    step = finite(row.get("step")) if isinstance(row, dict) else None
    return row if step is not None and abs(step) <= MAX_STEP else None


def num_damaged(lines: bytes) -> int:
    """How many lines do not begin and end as a JSON object: cheap enough for every row of every run."""
    stripped = (line.strip() for line in lines.split(b"\n"))
    return sum(1 for line in stripped if line and not (line[:1] == b"{" and line[-1:] == b"}"))


def last_row(path: Path) -> dict[str, Any]:
    """The last whole row of a file; empty where there is none in its last megabytes."""
    for span in LAST:
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - span))
                lines = file.read().split(b"\n")[:-1]
        except OSError:
            return {}
        row = next((row for line in reversed(lines) if (row := read_row(line)) is not None), None)
        if row is not None or size <= span:
            return row or {}
    return {}


def _figures(row: dict[str, Any]) -> list[tuple[Key, float | None]]:
    figures: list[tuple[Key, float | None]] = []
    for name, value in row.items():
        if isinstance(value, dict):
            for label, part in value.items():
                inner = part.items() if isinstance(part, dict) else ()
                figures += [((named(name, 40), named(label, 40), named(f, 40)), finite(v)) for f, v in inner]
        elif name != "step" and isinstance(value, int | float):
            figures.append(((named(name, 40),), finite(value)))
    return figures
