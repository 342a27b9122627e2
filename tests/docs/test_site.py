"""`make site`: it builds offline and strictly, every link and anchor leads somewhere, nothing is fetched from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import DOCS, PAGES, ROOT, without_fences
from waiting import PATIENCE

pytest.importorskip("properdocs", reason="needs the site generator: pip install 'holdfast[docs]'")
BULLET, TABLE, HEADING = r"^ {0,3}(?:[-*]|\d+\.) ", r"^\|(?:\s*:?-+:?\s*\|)+$", r"^#+ "


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "properdocs", "build", "--strict", "--site-dir", str(site)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=PATIENCE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


def html_of(page: Path, site: Path) -> Path:
    if page.name == "README.md":
        return site / ("index.html" if page.parent == ROOT else f"{page.parent.name}.html")
    return (site / page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT)).with_suffix(".html")


def test_every_page_is_there_with_all_of_its_lists_tables_and_headings(site: Path) -> None:
    """Two dialects of Markdown: a list that lacks a blank line before it would become a paragraph here."""
    for page in PAGES:
        text = without_fences(page.read_text(encoding="utf-8"))
        html = html_of(page, site).read_text(encoding="utf-8")
        body = html[html.index('itemprop="articleBody"') : html.index("<footer>")]
        wanted = [len(re.findall(pattern, text, re.MULTILINE)) for pattern in (BULLET, TABLE, HEADING)]
        assert [body.count("<li>"), body.count("<table"), len(re.findall(r"<h\d", body))] == wanted, page.name


def test_every_link_of_the_built_pages_leads_to_a_file_and_an_anchor(site: Path) -> None:
    """The generator checks Markdown's links; this checks what came out, its own menus included."""
    ids = {path: set(re.findall(r'\bid="([^"]+)"', path.read_text(encoding="utf-8"))) for path in site.rglob("*.html")}
    checked = 0
    for path in ids:
        for link in re.findall(r'(?:href|src)="([^"]+)"', path.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", link) or path.name == "404.html":  # its links begin at the server's root
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.is_file(), f"{path.name}: {link}"
            assert not anchor or target.suffix != ".html" or anchor in ids[target], f"{path.name}: {link}"
            checked += 1
    assert checked > 1000


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        html = path.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="(?:https?:)?//[^"]+', html), path.name


def test_a_line_of_code_is_shown_where_an_objective_points_to(site: Path) -> None:
    html = (site / "objectives" / "sft.html").read_text(encoding="utf-8")
    link = re.search(r'href="\.\./(source/[^"#]+)#(L\d+)"', html)
    assert link
    shown = (site / link[1]).read_text(encoding="utf-8")
    line = re.search(rf'<span id="{link[2]}">(.*)', shown)
    assert line
    assert re.sub(r"<[^>]+>", "", line[1]).strip() == "return -stats.logp"


def test_broken_links_stop_it(tmp_path: Path) -> None:
    """To a page, a line, a heading and a file."""
    for name in ("docs", "studies/configs", "src/holdfast", "tests/parity"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for path in [*ROOT.glob("*.md"), ROOT / "properdocs.yml"]:
        shutil.copy(path, tmp_path)
    shutil.copy(ROOT / "studies/README.md", tmp_path / "studies")
    for page, old, new in (
        ("objectives.md", "(objectives/sft.md)", "(objectives/soft.md)"),
        ("objectives/sft.md", "sft.py#L", "sft.py#L99"),
        ("training.md", "objectives.md#normalisation", "objectives.md#multiplication"),
        ("objectives.md", "recipes/dft.yaml)", "recipes/left.yaml)"),
    ):
        path = tmp_path / "docs" / page
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    warnings = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    assert len(warnings) == 4
    for broken in (
        "objectives/soft.md",
        "sft.py.md#L99",
        "objectives.md#multiplication",
        "../src/holdfast/recipes/left.yaml",
    ):
        assert any(broken in line for line in warnings), broken
