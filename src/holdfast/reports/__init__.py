"""A run directory as one HTML file that opens from disk: no network, nothing to install, nothing of it trusted."""

from __future__ import annotations

from pathlib import Path

from holdfast.config.arguments import checked
from holdfast.config.base import user_path
from holdfast.data import atomic_text
from holdfast.reports.page import render
from holdfast.reports.reading import read_run

__all__ = ["write_report"]


@checked("report")
def write_report(run: str | Path | object, out: str | Path | None = None) -> Path:
    """Write the report of a run, by default as ``report.html`` in its folder; whole, or not at all. Gives its path.

    ``run``: the folder, or the result of ``hf.train`` or ``hf.attack``.
    """
    folder = user_path(run, "report: run")
    out = folder / "report.html" if out is None else user_path(out, "report: out")
    page = render(read_run(folder))
    with atomic_text(out) as file:
        file.write(page)
    return out
