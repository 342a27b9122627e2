"""Markdown for the pages of results: tables, and sections that a later run replaces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.data import atomic_text, write_between_marks


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, tight: bool = False) -> str:
    """A table in Markdown. ``tight``: the head and the line below it as the older pages have them, without spare spaces."""
    first, rule = _line(head), _line(["---"] * len(head))
    if tight:
        first, rule = first.replace("|  |", "| |"), "|---" * len(head) + "|"
    return "\n".join([first, rule, *map(_line, rows)])


def write_section(page: Path, text: str, name: str, title: str) -> None:
    """Put the text between marks of this name. New marks go to the end of the page; a new page gets ``title``."""
    old = page.read_text(encoding="utf-8") if page.exists() else title
    if f"<!-- {name}:begin -->" not in old:
        page.parent.mkdir(parents=True, exist_ok=True)
        with atomic_text(page) as file:
            file.write(f"{old.rstrip()}\n\n<!-- {name}:begin -->\n<!-- {name}:end -->\n")
    write_between_marks(page, text, name)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
