"""What the list says about a run: its state, where it stands, how fast it goes and how long it will take."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from holdfast.reports.reading import finite, objects_in
from holdfast.reports.text import shown
from holdfast.view.folders import Folder
from holdfast.view.logs import last_row, num_damaged

MAX_CONFIG = 1 << 16
RECENT = 60.0  # seconds: where the system does not tell locks, a log that grew since then belongs to a run that runs
LOCKS = Path("/proc/locks")
WATCHED = (
    "config.yaml",
    "steps.jsonl",
    "timing.jsonl",
    "finished.json",
    "matrix.jsonl",
    "cells",
    "microscope.json",
    "model",
)


@dataclass(frozen=True)
class Summary:
    """One run as the list shows it. ``reason``: what is wrong with it."""

    id: str
    name: str
    state: str = "stopped"  # running, finished, stopped or damaged
    reason: str = ""
    model: str = ""
    objectives: str = ""
    step: float | None = None
    total: float | None = None
    loss: float | None = None
    nll: float | None = None
    kl: float | None = None
    tokens_per_second: float | None = None
    seconds_left: float | None = None
    has_steps: bool = False
    has_matrix: bool = False
    cells_changed: int = 0  # when a cell was last written: the page then draws the matrix again
    has_microscope: bool = False
    has_model: bool = False

    def row(self) -> dict[str, Any]:
        """The fields for the page."""
        return asdict(self)


class Watched:
    """A run that is looked at again and again: only what has changed is read."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.version = 0
        self.summary = Summary(folder.id, folder.name)
        self._marks: object = None
        self._scanned, self._num_bad = 0, 0
        self._config: tuple[object, dict[str, Any], str] | None = None
        self._pace: tuple[float, float] | None = None  # when it was first seen running, and at which step

    def refresh(self, folder: Folder, locked: frozenset[tuple[int, int]] | None, deadline: float = math.inf) -> None:
        """Read the run again if one of its files, or whether it runs, has changed.

        Past ``deadline`` its log is not searched for damaged lines: that is done at the next look.
        """
        self.folder = folder
        running = _is_running(folder.path, locked)
        marks = (folder, running, tuple(_mark(folder.path / name) for name in WATCHED))
        if marks != self._marks:
            in_time = time.monotonic() < deadline
            self._marks = marks if in_time else None
            summary = self._read(running, in_time)
            self.version += summary != self.summary or not self.version
            self.summary = summary

    def _read(self, running: bool, searched: bool) -> Summary:
        path, name = self.folder.path, self.folder.name
        if self.folder.fault:
            return Summary(self.folder.id, name, "damaged", self.folder.fault)
        config, problem = self._read_config(path / "config.yaml")
        row, timing = last_row(path / "steps.jsonl"), last_row(path / "timing.jsonl")
        problem = problem or (self._bad_rows(path / "steps.jsonl") if searched else "")
        problem = problem or ("" if running else _lost_files(path))
        done = (path / "finished.json").is_file() or (path / "model").is_dir() or (path / "matrix.jsonl").is_file()
        step = finite(row.get("step"))
        total = _total(config, step, finite(row.get("epoch")))
        return Summary(
            id=self.folder.id,
            name=name,
            state="running" if running else "damaged" if problem else "finished" if done else "stopped",
            reason=shown(problem, 200),
            model=shown(_text(config, "model"), 120),
            objectives=shown(_objectives(config), 120),
            step=step,
            total=total,
            loss=finite(row.get("loss")),
            nll=finite(row.get("nll")),
            kl=_kl(row),
            tokens_per_second=finite(timing.get("tokens_per_second")),
            seconds_left=self._seconds_left(running, step, total),
            has_steps=step is not None,
            has_matrix=(path / "cells").is_dir() or (path / "matrix.jsonl").is_file(),
            cells_changed=(_mark(path / "cells") or (0,))[0],
            has_microscope=(path / "microscope.json").is_file(),
            has_model=(path / "model").is_dir(),
        )

    def _read_config(self, path: Path) -> tuple[dict[str, Any], str]:
        mark = _mark(path)
        if self._config is None or self._config[0] != mark:
            self._config = (mark, *_config(path))
        return self._config[1:]

    def _bad_rows(self, path: Path) -> str:
        """Lines that are no rows; a last line without its end may still be written."""
        try:
            with path.open("rb") as file:
                if file.seek(0, 2) < self._scanned:
                    self._scanned, self._num_bad = 0, 0
                file.seek(self._scanned)
                new = file.read()
        except OSError:
            return ""
        whole = new[: new.rfind(b"\n") + 1]
        self._scanned += len(whole)
        self._num_bad += num_damaged(whole)
        return f"damaged lines in steps.jsonl: {self._num_bad:,}" if self._num_bad else ""

    def _seconds_left(self, running: bool, step: float | None, total: float | None) -> float | None:
        """Seconds to the end, by the pace since the run was first seen; None until it has moved."""
        now = time.monotonic()
        if not running or step is None or total is None or (self._pace and step < self._pace[1]):
            self._pace = None
            return None
        if self._pace is None:
            self._pace = (now, step)
            return None
        since, first = self._pace
        return (total - step) * (now - since) / (step - first) if step > first else None


def locked_folders() -> frozenset[tuple[int, int]] | None:
    """Device and inode of everything that a process of this machine holds a lock on; None where the system does not tell.

    A training holds a lock on its folder. Trying to take it would tell too, but could stop a run that begins at that moment.
    """
    try:
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return None
    places = [line.split()[-3].split(":") for line in lines if "FLOCK" in line and " -> " not in line]
    return frozenset((os.makedev(int(major, 16), int(minor, 16)), int(inode)) for major, minor, inode in places)


def _is_running(path: Path, locked: frozenset[tuple[int, int]] | None) -> bool:
    """A training locks its folder; a matrix has a scratch folder named by its process."""
    prefix = f".scratch-{socket.gethostname()}-"
    pids = [entry.name.removeprefix(prefix) for entry in _entries(path / "cells") if entry.name.startswith(prefix)]
    if any(pid.isdigit() and _is_alive(int(pid)) for pid in pids):
        return True
    try:
        facts = path.stat()
        if locked is not None:
            return (facts.st_dev, facts.st_ino) in locked
        return time.time() - (path / "steps.jsonl").stat().st_mtime < RECENT and not (path / "model").is_dir()
    except OSError:
        return False


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def _config(path: Path) -> tuple[dict[str, Any], str]:
    try:
        if not path.is_file():
            return {}, ""
        if path.stat().st_size > MAX_CONFIG:
            return {}, "config.yaml is too large"
        config = yaml.safe_load(path.read_bytes())  # not libyaml's loader, which a deep nesting kills
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        return {}, f"config.yaml cannot be read: {type(error).__name__}"
    return (config, "") if isinstance(config, dict) else ({}, "config.yaml is no mapping")


def _lost_files(path: Path) -> str:
    """What a finished run says it has made, and has not."""
    file = path / "finished.json"
    try:
        names = list(json.loads(file.read_text(encoding="utf-8"))["files"]) if file.is_file() else []
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "finished.json cannot be read"
    for name in names:
        if not isinstance(name, str) or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            return "finished.json names a file outside the run"
        if "\0" in name or not (path / name).is_file():
            return f"{name} is gone"
    return ""


def _text(config: dict[str, Any], key: str) -> str:
    value = config.get(key)
    value = value.get("name") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _objectives(config: dict[str, Any]) -> str:
    if "rl" in config:
        return "grpo"
    names = [stream.get("objective", "sft") for stream in objects_in(config.get("streams"))]
    return " + ".join(name for name in names[:12] if isinstance(name, str))


def _total(config: dict[str, Any], step: float | None, epoch: float | None) -> float | None:
    """Steps to the end: as set, or as the share of all epochs that is done tells, which RL does not log."""
    training = config.get("rl") or config.get("training")
    training = training if isinstance(training, dict) else {}
    most, epochs = finite(training.get("max_steps") or training.get("steps")), finite(training.get("epochs"))
    return most or (step * epochs / epoch if step and epochs and epoch and epoch > 0 else None)


def _kl(row: dict[str, Any]) -> float | None:
    """KL to the anchor, the mean over the streams that tell it; RL tells one for the run."""
    streams = row.get("streams")
    parts = list(streams.values()) if isinstance(streams, dict) else []
    figures = [part for part in parts if isinstance(part, dict)]
    known = [kl for part in figures if (kl := finite(part.get("kl", part.get("kl_rev")))) is not None]
    return sum(known) / len(known) if known else finite(row.get("kl"))
