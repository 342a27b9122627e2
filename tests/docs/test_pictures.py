"""docs/pictures: small, shown by a page, loading nothing from elsewhere, and made by `python docs/tools/pictures.py`."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import DOCS, PAGES, ROOT
from forked import Forked
from holdfast.reports import write_report
from reports.runs import write_run

TOOL = DOCS / "tools" / "pictures.py"
PICTURES = sorted((DOCS / "pictures").iterdir())
NO_BROWSER = shutil.which("chromium") is None or importlib.util.find_spec("playwright") is None


def drawn(name: str, runs: Path, out: Path) -> str:
    """Run the command as a reader does. Returns what it said."""
    done = subprocess.run(
        [sys.executable, str(TOOL), name, "--runs", str(runs), "--out", str(out)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return done.stdout if done.returncode == 0 else pytest.fail(done.stderr)


def test_every_picture_is_small_shown_and_has_its_maker() -> None:
    shown = {
        (page.parent / link).resolve()
        for page in PAGES
        for link in re.findall(r"!\[[^\]]+\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    }
    makers = runpy.run_path(str(TOOL))["DRAWN_BY"]
    assert {path.stem for path in PICTURES} == set(makers)
    for path in PICTURES:
        assert path.stat().st_size < 300_000
        assert path.resolve() in shown, f"{path.name} is on no page"


def test_an_svg_loads_nothing_from_elsewhere() -> None:
    for path in PICTURES:
        if path.suffix == ".svg":
            links = set(re.findall(r"https?://[^\s\"')]+", path.read_text(encoding="utf-8")))
            assert links <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}, path.name


def test_frames_by_hand() -> None:
    """`in the harbour` is given; ` harbour` is taken back; ` garden` is the model's own."""
    pieces = ("in", " the", " harbour")
    events = [
        *({"event": "insert", "row": 0, "text": piece} for piece in pieces),
        {"event": "delete", "row": 0, "num_chars": 8},
        {"event": "insert", "row": 0, "text": " garden"},
        {"event": "finished", "row": 0},
    ]
    frames = [(what.plain, line.plain) for what, line in runpy.run_path(str(TOOL))["frames"](events)]
    assert frames == [
        ("is given", "in"),
        ("is given", "in the"),
        ("is given", "in the harbour"),
        ("takes back", "in the harbour"),
        ("writes", "in the garden"),
        ("done", "in the garden"),
    ]


def test_the_readme_s_picture_and_its_page_are_those_of_the_committed_cells(tmp_path: Path) -> None:
    done = Forked("qwen", "--runs", tmp_path, "--out", tmp_path, script=TOOL, cwd=ROOT).done()
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "qwen.svg").read_text() == (DOCS / "pictures" / "qwen.svg").read_text()
    told = [path.read_text().splitlines() for path in (tmp_path / "qwen.md", DOCS / "results" / "qwen.md")]
    assert [line for line in told[0] if "Written by" not in line] == [
        line for line in told[1] if "Written by" not in line
    ]


@pytest.mark.slow
def test_the_row_by_role_is_drawn_again_as_it_is(tmp_path: Path) -> None:
    drawn("roles", tmp_path, tmp_path)
    assert (tmp_path / "roles.svg").read_text() == (DOCS / "pictures" / "roles.svg").read_text()


@pytest.mark.slow
def test_the_undo_decoder_is_drawn_again_as_it_is(tmp_path: Path) -> None:
    drawn("undo", tmp_path, tmp_path)
    assert (tmp_path / "undo.svg").read_text() == (DOCS / "pictures" / "undo.svg").read_text()


@pytest.mark.skipif(
    NO_BROWSER, reason="needs a Chromium and playwright: apt-get install chromium; pip install playwright"
)
def test_the_matrix_is_drawn_from_a_report(tmp_path: Path) -> None:
    """From the small report of the browser's tests; the demo itself takes minutes."""
    write_report(write_run(tmp_path / "demo", num_runs=1))
    drawn("matrix", tmp_path, tmp_path)
    assert (tmp_path / "matrix.png").read_bytes().startswith(b"\x89PNG")
