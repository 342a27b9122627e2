"""Walking through a page: its commands in order, with names of ours for the reader's, perhaps in small."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from docs.pages import fenced
from invariants.launching import run_cli

SMALL = {
    "audit": ["--max-new-tokens", "3", "--limit", "2"],
    "train": [
        "lora.r=2",
        "training.max_steps=2",
        "training.batch_size=4",
        "streams.1.limit=2",
        "streams.2.limit=2",
        "--quiet",
    ],
}
"""What makes the commands for a model of one's own small (the recipe `defended`)."""
NUMBER = re.compile(r"\d+(?:\.\d+)?")
SHARE = re.compile(r"\b[01]\.\d{3}\b")


@dataclass(frozen=True)
class Shown:
    """A command, and the lines of its output that the page shows."""

    command: str
    output: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command)


def shown(page: str) -> list[Shown]:
    """What stands in ```console blocks: `$ command`, then output."""
    found: list[Shown] = []
    for line in "".join(fenced(page, "console")).splitlines():
        if line.startswith("$ "):
            found.append(Shown(line.removeprefix("$ ")))
        else:
            found[-1] = Shown(found[-1].command, (*found[-1].output, line))
    return found


def run_in_small(
    command: str, names: Mapping[str, str], more: Mapping[str, Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> int:
    """`holdfast ...` in this process; ``more`` has what makes each command small. Returns its exit code."""
    words = shlex.split(command)[1:]  # before paths go in: they may have spaces
    for name, value in names.items():
        words = [word.replace(name, value) for word in words]
    return run_cli(*words, *more.get(words[0], []), monkeypatch=monkeypatch)


def own_rows(folder: Path) -> None:
    """rows.jsonl: a task of the reader's own."""
    rows = [{"prompt": f"Say {word}", "completion": word} for word in ("acorn", "basket", "candle", "dolphin")]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def assert_said(wanted: Sequence[str], said: str) -> None:
    """Every wanted line begins a line that was said, in order: the same words, shares within 5 points of each other."""
    lines = [" ".join(line.split()) for line in said.splitlines()]
    at = 0
    for want in (" ".join(line.split()) for line in wanted):
        words = NUMBER.sub("#", want)
        at = next((n for n, line in enumerate(lines[at:], at) if NUMBER.sub("#", line).startswith(words)), -1) + 1
        assert at, f"not said: {want}\n{said}"
        if "%" in want:
            pairs = zip(NUMBER.findall(want), NUMBER.findall(lines[at - 1]), strict=False)
            assert all(abs(float(one) - float(other)) <= 5 for one, other in pairs), f"{want}\n{lines[at - 1]}"
        pairs = zip(SHARE.findall(want), SHARE.findall(lines[at - 1]), strict=False)
        assert all(abs(float(one) - float(other)) <= 0.05 for one, other in pairs), f"{want}\n{lines[at - 1]}"
