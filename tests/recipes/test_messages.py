"""What the program says and what its files say lead nowhere that an installed user has not: no configs/, no docs/."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from docs.pages import PAGES, ROOT
from holdfast.config.recipes import FOLDER

PACKAGE = Path(holdfast.__file__).parent
STUDIES = ("papers/", "oversight/study/")  # they run in a checkout
NOT_INSTALLED = re.compile(r"(?<![\w.-])(configs|docs|tests|benchmarks)/")
"""Folders of the repository that are not in the wheel."""


def said(source: str) -> Iterator[tuple[int, str]]:
    """Every text of a module that is no docstring and no comment, with its line."""
    tree = ast.parse(source)
    silent = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    commands = {id(node.body[0].value) for node in ast.walk(tree) if _is_command(node)}  # typer shows their docstring
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent - commands:
            yield node.lineno, node.value


def _is_command(node: ast.AST) -> bool:
    """A function whose parameters are Annotated has a help text."""
    if not isinstance(node, ast.FunctionDef) or not isinstance(node.body[0], ast.Expr):
        return False
    return any("Annotated" in ast.dump(each.annotation) for each in node.args.args if each.annotation)


def test_no_message_names_a_file_of_the_repository() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text[:80]}"
        for path in PACKAGE.rglob("*.py")
        if not path.relative_to(PACKAGE).as_posix().startswith(STUDIES)
        for line, text in said(path.read_text(encoding="utf-8"))
        if NOT_INSTALLED.search(text)
    ]
    assert found == []


def test_no_recipe_names_a_file_of_the_repository() -> None:
    for path in FOLDER.rglob("*.yaml"):
        assert not NOT_INSTALLED.search(path.read_text(encoding="utf-8")), path.name


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ('"""configs/a."""\nx = "b"', ["b"]),
        ('def f():\n    """configs/a."""\n    raise E(f"see configs/{x}")', ["see configs/"]),
        ('def f(x: Annotated[str, Option(help="h")]):\n    """Help."""', ["Help.", "h"]),
    ],
)
def test_what_counts_as_said(source: str, texts: list[str]) -> None:
    assert sorted(text for _, text in said(source)) == sorted(texts)


def test_nothing_points_outside_the_repository() -> None:
    outside = "../" + "shared"
    files = [*PAGES, *(ROOT / "configs").rglob("*.yaml"), *FOLDER.rglob("*.yaml"), *PACKAGE.rglob("*.py")]
    assert [str(path) for path in files if outside in path.read_text(encoding="utf-8")] == []
