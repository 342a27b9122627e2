"""All pages: links resolve, named files and tests exist, nothing of a private machine is on them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from docs.pages import PAGES, ROOT, without_fences

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"(?<![\w/])((?:src|tests|studies|benchmarks|docs)/[\w./-]+\.(?:py|yaml|md|jsonl))(?:::(\w+))?")
PRIVATE = re.compile(r"/(?:home|root|work|mnt|Users|tmp)/|\.\./shared")


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.replace("\\", "").lower())
    return kept.replace(" ", "-")


@cache
def anchors(page: Path) -> set[str]:
    """Headings of a page, lines of any other file."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".md":
        return {f"L{number}" for number, _ in enumerate(text.splitlines(), 1)}
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", without_fences(text), re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page: Path) -> None:
    for target in LINK.findall(without_fences(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), f"{target}: no such file"
        assert linked.is_relative_to(ROOT), f"{target}: outside the repository"
        if anchor:
            assert anchor in anchors(linked), f"{target}: no such heading or line"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_and_tests_exist(page: Path) -> None:
    for name, test in NAMED.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / name).is_file(), f"{name}: no such file"
        if test:
            assert f"def {test}(" in (ROOT / name).read_text(encoding="utf-8"), f"{name}: no {test}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_private_paths(page: Path) -> None:
    assert not PRIVATE.search(page.read_text(encoding="utf-8"))


def test_the_pages_are_there() -> None:
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    pages = (
        "objectives",
        "footguns",
        "reliability",
        "threat-model",
        "papers",
        "lab-log",
        "training",
        "data",
        "limits",
        "math",
    )
    assert {*(f"docs/{name}.md" for name in pages), "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} <= names
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "END OF TERMS AND CONDITIONS" in licence


def test_the_links_test_can_fail() -> None:
    assert slug("Normalisation: one division") == "normalisation-one-division"
    assert slug("What steps.jsonl shows") == "what-stepsjsonl-shows"
    assert LINK.findall("a [b](c.md#d) [`e`](#f)") == ["c.md#d", "#f"]
