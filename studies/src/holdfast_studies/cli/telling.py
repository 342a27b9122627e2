"""The end of a study's command: its section goes into a page, its figures into JSON, or the section to the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.cli import write_json


def shown_command(name: str, config: Path, overrides: Sequence[str]) -> str:
    """The command as a page shows it. Of a model or a file only the name is shown: folders differ between machines."""
    words = []
    for word in overrides:
        key, _, value = word.partition("=")
        kind, colon, path = value.rpartition(":")
        words.append(f"{key}={kind}{colon}{Path(path).name}" if key != "run" and Path(path).exists() else word)
    return " ".join(["holdfast diagnose", name, str(config), *words])


def tell(text: str, figures: Any, *, run: str, page: Path | None, json: Path | None, title: str = "") -> None:
    """Write the section and the figures. ``title`` begins a page that does not exist yet."""
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
