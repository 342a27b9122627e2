"""Which source files a module reaches by its imports: a figure that it makes depends on these and on no others."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
ROOT = PACKAGE.name
DATA = ("*.json", "*.safetensors")
"""Files beside the source of a package that decide what its code says, such as a judge's weights."""


@cache
def reached(*modules: str) -> tuple[Path, ...]:
    """Every file of this package that these modules import, directly or not, in functions too; sorted.

    ``from package import name`` reaches the module that defines the name, not the whole package.
    """
    waiting, seen = list(modules), set[str]()
    while waiting:
        module = waiting.pop()
        if module not in seen and _file(module) is not None:
            seen.add(module)
            waiting += _imports(module)
    return tuple(sorted(path for module in seen if (path := _file(module)) is not None))


def data_of(files: tuple[Path, ...]) -> list[Path]:
    """The data files in folders below those of these files that hold no source of their own."""
    folders = {child for path in files for child in path.parent.iterdir() if child.is_dir()}
    plain = [folder for folder in folders if not (folder / "__init__.py").exists()]
    return sorted(path for folder in plain for pattern in DATA for path in folder.glob(pattern))


def _file(module: str) -> Path | None:
    path = PACKAGE.parent.joinpath(*module.split("."))
    files = [file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]
    return files[0] if files else None


@cache
def _tree(module: str) -> ast.Module:
    path = _file(module)
    assert path is not None
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _imports(module: str) -> tuple[str, ...]:
    names: list[str] = []
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names if _is_ours(alias.name)]
        elif isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            names += [_home(node.module, alias.name) for alias in node.names]
    return tuple(dict.fromkeys(names))


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == ROOT


@cache
def _home(module: str, name: str) -> str:
    """The module that defines a name which is imported from ``module``."""
    if _file(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    if _file(module) is None:
        return module
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            for alias in node.names:
                if (alias.asname or alias.name) == name and (node.module, alias.name) != (module, name):
                    return _home(node.module, alias.name)
    return module
