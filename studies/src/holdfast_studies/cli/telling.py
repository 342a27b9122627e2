"""How a study's command ends: its section goes into a page, its figures into JSON or the section to the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.cli import write_json


def tell(text: str, figures: Any, *, run: str, page: Path | None, json: Path | None, title: str = "") -> None:
    """``title``: what a page that is not there yet begins with."""
    from rich.console import Console
    from rich.markdown import Markdown

    from holdfast_studies.undo.safety_gap_page import write_section

    if page is not None:
        if title and not page.exists():
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(title, encoding="utf-8")
        write_section(page, Path(run).name, text)
    if not write_json(json, figures):
        Console().print(Markdown(text))
