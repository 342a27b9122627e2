"""`holdfast recipes [NAME]`: the runnable YAML that comes with the package, listed or printed."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from holdfast.config.errors import InputError, nearest_or_all
from holdfast.config.recipes import COMMANDS, recipes

DATA = {
    "rows": "300 rows that tiny:* speaks: a harmless task, and 30 rows that answer what must be refused.",
    "traces": "12 answers that tiny:* speaks, each with an error that is taken back: for undo.",
}
"""Printed as JSON lines by the same command; the embedded world makes them (``world:safety/NAME``)."""


def show(
    name: Annotated[
        str | None, typer.Argument(help="A recipe, to print it; rows or traces, for data to try it on")
    ] = None,
) -> None:
    """List the recipes, or print one: `holdfast recipes defended > mine.yaml`. `train` and `attack` take their names.

    The first line of what is printed is the command that runs a copy: FILE stands for its name.
    """
    if name is None:
        _list()
    elif name in DATA:
        _print_data(name)
    elif name in recipes():
        text = recipes()[name].path.read_text(encoding="utf-8")
        # Its first line is its command. A copy is run by the name of its file, not by that of the recipe.
        sys.stdout.write(re.sub(rf"^(# holdfast \w+) {name}\b", r"\1 FILE", text))
    else:
        raise InputError(f"{name}: no such recipe{nearest_or_all(name, (*recipes(), *DATA))}")


def _list() -> None:
    for command, words in COMMANDS.items():
        print(words)
        for recipe in recipes().values():
            if recipe.command == command:
                print(f"  {recipe.name:<16} {recipe.about}")
    print("holdfast recipes NAME > FILE, to have a recipe as a file of your own; or data:")
    for data, about in DATA.items():
        print(f"  {data:<16} {about}")


def _print_data(name: str) -> None:
    from holdfast.data.writing import json_lines
    from holdfast.worlds.examples import EXAMPLES

    sys.stdout.writelines(json_lines(EXAMPLES[name]()))
