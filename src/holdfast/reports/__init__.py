"""A run directory as one HTML file that opens from disk: no network, nothing to install, nothing of it trusted."""

from __future__ import annotations

from pathlib import Path

from holdfast.data import atomic_text
from holdfast.reports.page import render
from holdfast.reports.reading import read_run

__all__ = ["write_report"]


def write_report(run: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a run's folder, by default as ``report.html`` in it; whole, or not at all. Gives its path."""
    run = Path(run)
    out = run / "report.html" if out is None else Path(out)
    page = render(read_run(run))
    with atomic_text(out) as file:
        file.write(page)
    return out
