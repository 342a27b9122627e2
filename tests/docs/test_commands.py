"""Every `holdfast ...` that a page or a config shows: the command exists, and so do its options."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from docs.pages import PAGES, ROOT
from holdfast.cli import app
from holdfast.config.recipes import FOLDER as RECIPES

SHOWN = re.compile(r"(?:^(?:    |\$ |# )?|`)(?:[A-Z_]+=\S+ )*holdfast ([a-z][^`\n]*)", re.MULTILINE)
FILES = [*PAGES, *sorted((ROOT / "studies/configs").rglob("*.yaml")), *sorted(RECIPES.rglob("*.yaml"))]


@cache
def root() -> Any:
    return typer.main.get_command(app)


def complaint(words: list[str]) -> str | None:
    """What is wrong with `holdfast WORDS`; None if nothing is."""
    command: Any = root()
    while hasattr(command, "commands"):
        if not words or words[0] not in command.commands:
            return f"no command '{words[0] if words else ''}' in {', '.join(command.commands)}"
        command, words = command.commands[words[0]], words[1:]
        if not words:
            return None  # `holdfast diagnose`, spoken of
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
    for word in words[: words.index("--")] if "--" in words else words:  # what follows is the user's own command
        name = word.partition("=")[0].strip("[](),.;:")
        if name.startswith("--") and name not in known:
            return f"no option {name}; known: {', '.join(sorted(known))}"
    return None


def shown(text: str) -> list[str]:
    """Continued lines joined, comments behind a command left out."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    return [each.partition(" #")[0].strip() for each in SHOWN.findall(joined)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_exist(path: Path) -> None:
    for command in shown(path.read_text(encoding="utf-8")):
        assert complaint(command.split()) is None, f"holdfast {command}: {complaint(command.split())}"


TRAINED = re.compile(
    r"^(?:    |\$ |[A-Z_]+=\S+ |accelerate [^\n]*-m )[^`\n]*?holdfast (train \S+[^`\n]*)", re.MULTILINE
)
"""Commands to type, also behind `accelerate launch`."""


def test_no_two_commands_train_otherwise_into_one_folder() -> None:
    """The second of them would be refused: the folder has another run."""
    by_folder: dict[str, set[str]] = {}
    for path in PAGES:
        for found in TRAINED.findall(path.read_text(encoding="utf-8")):
            command = found.partition(" #")[0].strip()
            recipe = RECIPES / f"{command.split()[1]}.yaml"
            default = (
                re.search(r"^run: (\S+)", recipe.read_text(encoding="utf-8"), re.MULTILINE)
                if recipe.is_file()
                else None
            )
            if folder := re.search(r"\brun=(\S+)", command) or default:
                by_folder.setdefault(folder[1], set()).add(command.replace(f" run={folder[1]}", ""))
    assert by_folder["runs/sft"] >= {"train sft training.epochs=10 training.lr=3e-3"}
    assert {folder: commands for folder, commands in by_folder.items() if len(commands) > 1} == {}


def test_it_finds_commands_and_can_complain() -> None:
    assert sum(len(shown(path.read_text(encoding="utf-8"))) for path in FILES) > 100
    assert shown("x `holdfast ls` y\n    A=1 holdfast audit m \\\n      --limit 3  # few\n") == [
        "ls",
        "audit m --limit 3",
    ]
    assert "no command 'trian'" in str(complaint(["trian"]))
    assert "no option --limits" in str(complaint(["audit", "m", "--limits", "3"]))
    assert complaint(["traces", "make", "a", "b", "--builder", "align"]) is None
