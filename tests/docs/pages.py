"""The repository's pages, and the pieces of them that tests look at."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md"), ROOT / "studies/README.md"]
)


def fenced(text: str, language: str) -> list[str]:
    """The insides of the page's ```language blocks."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def without_fences(text: str) -> str:
    """The page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def section(text: str, title: str) -> str:
    """The text under ``## title``, up to the next heading of that level."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no section '{title}'"
    return found[1]


def table_rows(text: str) -> list[list[str]]:
    """The cells of every table row but headers and rules."""
    rows = re.findall(r"^\|(.*)\|$", text, re.MULTILINE)
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in rows]
    rules = [number for number, row in enumerate(cells) if all(set(cell) <= set("-: ") for cell in row)]
    skipped = {*rules, *(number - 1 for number in rules)}
    return [row for number, row in enumerate(cells) if number not in skipped]
