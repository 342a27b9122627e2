"""Hashes of what decides a figure: the model's files, our source, and source of the user's own."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from holdfast.audits.reached import PACKAGE, data_of, reached
from holdfast.models import tiny_path
from holdfast.models.embedded import PREFIX
from holdfast.models.identity import hash_of

NO_PART = ("cli", "recipes", "reports", "serve", "view")
"""Packages that no figure depends on."""


def model_hash(name: str) -> str:
    """A hash of a .gguf file, or of the files of a folder or an embedded model. A hub id is returned as it is."""
    path = tiny_path(name) if name.startswith(PREFIX) else Path(name).expanduser()
    if path.is_file():
        return hash_of(path.parent, [path])
    return hash_of(path, sorted(path.glob("*"))) if path.is_dir() else name


def own_code(*parts: object) -> list[str]:
    """Hashes of the files outside the package that these classes and functions come from: they change between runs too."""
    names = {getattr(sys.modules.get(getattr(part, "__module__", "")), "__file__", None) for part in parts}
    files = [path for name in names if name and PACKAGE not in (path := Path(name).absolute()).parents]
    return sorted(hash_of(path.parent, [path]) for path in files)


@cache
def code_hash() -> str:
    """A hash of every source file that has a part in a figure."""
    files = sorted(PACKAGE.rglob("*.py"))
    return hash_of(PACKAGE, [path for path in files if path.relative_to(PACKAGE).parts[0] not in NO_PART])


@cache
def reached_hash(*modules: str) -> str:
    """A hash of every source file that these modules import, directly or not, and of the data files that their code reads."""
    files = reached(*modules)
    return hash_of(PACKAGE, [*files, *data_of(files)])
