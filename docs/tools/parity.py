"""docs/parity.md, from tests/parity: `python docs/tools/parity.py` runs them and writes what they compared.

Peers that need an environment of their own: run their tests there with HOLDFAST_PARITY_ROWS=FILE set, and give FILE as an
argument here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "parity.md"
HEAD = """# Beside other people's codes

What holdfast computes is compared with other codes, in tests that call them or hold values recorded from them. This table is
written by `make parity`: it runs `tests/parity` and shows the largest difference of each comparison. Where ours and theirs differ
on purpose, the page of that part says so ([TRL and LLaMA-Factory](from-other-trainers.md), [training.md](training.md),
[decision-sampling.md](decision-sampling.md)).

| peer | version | what was compared | largest difference | test |
|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """One comparison, as a test registered it."""

    peer: str
    version: str
    what: str
    difference: float | str
    test: str

    @property
    def line(self) -> str:
        """The line of the page's table."""
        cells = (self.peer, self.version, self.what, _shown(self.difference))
        escaped = " | ".join(cell.replace("|", "\\|") for cell in cells)
        return f"| {escaped} | [{self.test}](../tests/parity/{self.test}) |"


def page(rows: Iterable[Row]) -> str:
    """The page's text. Of several rows about the same thing it shows the one with the largest difference."""
    largest: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = (row.peer.lower(), row.what, row.version)
        if key not in largest or _size(row) > _size(largest[key]):
            largest[key] = row
    return HEAD + "\n".join(largest[key].line for key in sorted(largest)) + "\n"


def read_rows(lines: Iterable[str]) -> list[Row]:
    """Read rows from a file that tests have written."""
    return [Row(**json.loads(line)) for line in lines if line.strip()]


def _size(row: Row) -> float:
    return row.difference if isinstance(row.difference, float | int) else 0.0


def _shown(difference: float | str) -> str:
    if isinstance(difference, str):
        return difference
    return f"{difference:.1e}" if difference else "0"


def _run_tests(file: Path) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-rs", "tests/parity"]
    environment = {**os.environ, "HOLDFAST_PARITY_ROWS": str(file)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def main(others: Sequence[str]) -> int:
    """Write the page, unless a test failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        if code := _run_tests(file):
            print(f"{PAGE}: left as it was, a test failed")
            return code
        texts = [path.read_text(encoding="utf-8") for path in (file, *map(Path, others))]
    rows = [row for text in texts for row in read_rows(text.splitlines())]
    PAGE.write_text(page(rows), encoding="utf-8")
    print(f"{PAGE}: {len(rows)} rows registered")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
