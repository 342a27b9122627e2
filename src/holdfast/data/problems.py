"""What is wrong with a data file: one line each, every one of them reported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.config import InputError

MAX_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. A fatal one concerns the whole file, or hides the rest of it: no ``--skip-bad`` excuses it."""

    source: str
    line: int | None  # 1-based; in a parquet file or a hub dataset, the number of the row
    field: str | None
    message: str
    fatal: bool = False

    def __str__(self) -> str:
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{where}: {self.message}" if self.field is None else f"{where}: field '{self.field}': {self.message}"


class DataError(InputError):
    """A data file that cannot be used. The message shows the first problems; ``problems`` holds them all."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[:MAX_SHOWN]]
        if len(self.problems) > MAX_SHOWN:
            lines.append(f"... and {len(self.problems) - MAX_SHOWN} more")
        super().__init__("\n".join(lines))
