"""Run directories under one folder. Nothing outside it is read: links are not followed, or lead to another place inside.

A page asks for a run by an id that this server made, never by a path.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from holdfast.reports.reading import INPUTS
from holdfast.reports.text import named

MAX_RUNS = 2_000
MAX_DEPTH = 6
MAX_BYTES = 256 << 20  # of one file that is read whole
MARKS = {"config.yaml", "steps.jsonl", "matrix.jsonl", "cells"}
CLOSED = {"checkpoints", "model", "cells"}  # not searched for runs
READ = (*INPUTS, "curves.json", "timing.jsonl", "data.json", "finished.json", "cells", "model")


@dataclass(frozen=True)
class Folder:
    """A run directory. ``fault`` says why nothing of it is read."""

    id: str
    path: Path
    name: str
    fault: str = ""


def find_runs(root: Path) -> list[Folder]:
    """Every run directory at or below ``root``, by name; at most ``MAX_RUNS`` of them."""
    folders: list[Folder] = []
    for folder, inner, files in os.walk(root):
        path = Path(folder)
        depth = len(path.relative_to(root).parts)
        if not MARKS.isdisjoint([*inner, *files]):
            folders.append(_folder(path, root))
        inner[:] = sorted(name for name in inner if name not in CLOSED and not name.startswith("."))
        inner[:] = inner if depth < MAX_DEPTH else []
        if len(folders) >= MAX_RUNS:
            break
    return folders


def is_inside(path: Path, root: Path) -> bool:
    """Whether a path, its links followed, lies in ``root``."""
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # a circle of links
        return False


def readable(path: Path) -> bool:
    """Whether a file can be read whole: an ordinary file (a pipe would wait for ever) of a size that fits."""
    try:
        return path.is_file() and path.stat().st_size <= MAX_BYTES
    except OSError:
        return False


def _folder(path: Path, root: Path) -> Folder:
    relative = path.relative_to(root)
    digest = hashlib.sha256(os.fsencode(relative)).hexdigest()[:16]
    name = named(str(relative) if relative.parts else path.name, 120)
    try:
        fault = _fault(path, root)
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    return Folder(digest, path, name, fault)


def _fault(path: Path, root: Path) -> str:
    watched = [*(path / name for name in READ), *_steps_below(path)]
    for file in watched:
        if not is_inside(file, root):
            return f"{named(file.name)} is a link that leads out of the folder"
        if file.is_file() and not readable(file):
            return f"{named(file.name)} has more than {MAX_BYTES >> 20} MB"
    return ""


def _steps_below(path: Path) -> Iterable[Path]:
    """The report shows runs one folder down too."""
    with os.scandir(path) as entries:
        return [
            Path(entry.path) / "steps.jsonl" for entry in entries if entry.is_dir() and not entry.name.startswith(".")
        ]
