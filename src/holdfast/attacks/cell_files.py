"""Cells on disk: one file each, whole or not there."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from holdfast.data import atomic_text
from holdfast.records import MEASURES, Cell, Rate


def write_cell(path: Path, cell: Cell) -> None:
    """Replaces what is there in one step, so that two writers of the same cell do no harm."""
    with atomic_text(path) as file:
        json.dump(asdict(cell), file, indent=1)
        file.write("\n")


def read_cell(path: Path) -> Cell | None:
    """None if there is no such cell, or none that can be read: then it is run again."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        rates: dict[str, Rate | None] = {
            name: None if content[name] is None else Rate(**content[name]) for name in MEASURES
        }
        content = {**content, **rates, "kl_by_position": tuple(content["kl_by_position"])}
        return Cell(**{field.name: content[field.name] for field in fields(Cell)})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_table(path: Path, cells: list[Cell]) -> None:
    """``matrix.jsonl``: ``Cell.row()`` line by line."""
    with atomic_text(path) as file:
        for cell in cells:
            file.write(json.dumps(cell.row()) + "\n")
