"""Recipes: runnable YAML files that come with the package. A command takes a recipe's name where it takes a path."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from holdfast.config.errors import InputError, did_you_mean

FOLDER = Path(__file__).parents[1] / "recipes"
FIRST = "defended"
COMMANDS = {
    "train": "holdfast train NAME",
    "attack": "holdfast attack NAME",
    "launch": "accelerate launch --config_file FILE -m holdfast train ...",
}
"""What runs a recipe; the list has them in this order."""


class Recipe(NamedTuple):
    """One file. ``command`` is a key of COMMANDS, ``about`` its first sentence."""

    name: str
    command: str
    about: str
    path: Path


@cache
def recipes() -> dict[str, Recipe]:
    """Every recipe by name, `defended` first."""
    order = list(COMMANDS)
    made = [_recipe(path) for path in FOLDER.rglob("*.yaml")]
    made.sort(key=lambda recipe: (recipe.name != FIRST, order.index(recipe.command), recipe.name))
    return {recipe.name: recipe for recipe in made}


def find_config(source: str | Path, command: str) -> Path:
    """The file that ``source`` means to a command: the recipe of that name, else the path as it is.

    ``./NAME`` is always a path. Raises where there is neither, or where the recipe is one of another command.
    """
    name, path = str(source), Path(source)
    if name in recipes():
        recipe = recipes()[name]
        if recipe.command != command:
            raise InputError(
                f"{name}: this recipe is for `{COMMANDS[recipe.command]}`; `holdfast recipes {name}` shows it"
            )
        return recipe.path
    if path.exists():
        return path
    near = did_you_mean(path.stem, (recipe.name for recipe in recipes().values() if recipe.command == command))
    raise InputError(f"{name}: no such file, and no recipe of that name{near or '; `holdfast recipes` lists them'}")


def shown_path(path: Path) -> str:
    """How messages name a file of settings: a recipe by its name, which is what the user typed."""
    return f"recipe {path.stem}" if path.is_relative_to(FOLDER) else str(path)


def _recipe(path: Path) -> Recipe:
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    command = "launch" if "accelerate launch" in first else first.split()[2]
    number = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    text = " ".join(line.removeprefix("#").strip() for line in lines[:number])
    return Recipe(path.stem, command, text.partition(". ")[0].removesuffix(".") + ".", path)
