"""docs/math.md: every `MATH §n` that a source line cites is a section of the page."""

from __future__ import annotations

import re
from pathlib import Path

from docs.pages import DOCS, ROOT

CITED = re.compile(r"MATH ((?:§\d+(?:, | and )?)+)")
SOURCES = [folder for name in ("src", "studies") if (folder := ROOT / name).is_dir()]


def sections() -> set[int]:
    """The numbers of the page's headings."""
    text = (DOCS / "math.md").read_text(encoding="utf-8")
    return {int(number) for number in re.findall(r"^## (\d+)\. ", text, re.MULTILINE)}


def citations(text: str) -> list[int]:
    """The section numbers that a text cites, `MATH §5, §8` being two."""
    return [int(number) for cited in CITED.findall(text) for number in re.findall(r"\d+", cited)]


def test_every_citation_leads_to_a_section() -> None:
    known = sections()
    cited: dict[Path, list[int]] = {}
    for path in (path for folder in SOURCES for path in sorted(folder.rglob("*.py"))):
        cited[path] = citations(path.read_text(encoding="utf-8"))
    assert sum(map(len, cited.values())) > 30
    for path, numbers in cited.items():
        assert set(numbers) <= known, (
            f"{path.relative_to(ROOT)}: no section {sorted(set(numbers) - known)} in docs/math.md"
        )


def test_the_sections_are_numbered_without_a_gap() -> None:
    assert sorted(sections()) == list(range(1, 11))


def test_citations_are_found() -> None:
    assert citations("x (MATH §5, §8). MATH §10: y; MATH §2's") == [5, 8, 10, 2]
