"""Cells on disk: one file each, whole or not there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.data import atomic_text
from holdfast.judging import request_text
from holdfast.records import Cell, Trace


def write_cell(path: Path, cell: Cell) -> None:
    """Replaces what is there in one step, so that two writers of the same cell do no harm."""
    with atomic_text(path) as file:
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in cell.to_json().items()]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def read_cell(path: Path) -> Cell | None:
    """None if there is no such cell, or none that can be read: then it is run again."""
    try:
        return Cell.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_replies(
    folder: Path, attack: str, defence: str, seed: int, texts: Mapping[str, Sequence[tuple[Trace, str]]]
) -> None:
    """``ATTACK x DEFENCE, seed N.jsonl``: every request with its reply, for whoever reads or labels them."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{attack} x {defence}, seed {seed}.jsonl".replace("/", "-")
    with atomic_text(folder / name) as file:
        for kind, replies in texts.items():
            for row, reply in replies:
                where = {"attack": attack, "defence": defence, "seed": seed, "kind": kind}
                file.write(json.dumps({**where, "request": request_text(row.prompt), "reply": reply}) + "\n")


def write_table(path: Path, cells: list[Cell]) -> None:
    """``matrix.jsonl``: ``Cell.row()`` line by line."""
    with atomic_text(path) as file:
        for cell in cells:
            file.write(json.dumps(cell.row()) + "\n")
