"""JSON and JSON lines in a study's folder: whole files only, so that what is there is finished."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast.data import atomic_text


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file, and make its folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_text(path) as file:
        json.dump(content, file, indent=1)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines. Raises ``InputError`` where it is not there, or is something else."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: expected JSON lines: {error}") from None


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of JSON lines."""
    with atomic_text(path) as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
