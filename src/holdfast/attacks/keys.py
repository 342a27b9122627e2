"""The name of a cell's file: a hash of everything that decides its figures."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import holdfast
from holdfast import objectives
from holdfast.attacks.attack import Attack
from holdfast.attacks.defences import Defence
from holdfast.attacks.scale import Scale
from holdfast.config import InputError
from holdfast.config.base import Settings
from holdfast.judging import JUDGES
from holdfast.models import tiny_path
from holdfast.models.embedded import PREFIX

NO_PART_IN_CELLS = ("cli", "papers", "report")
LIBRARIES = ("torch", "transformers", "accelerate", "peft")


def cell_key(attack: Attack, defence: Defence, seed: int, scale: Scale) -> str:
    """Changes with the attack, the defence, the seed, the scale, the model's files, our code and the libraries."""
    parts = {
        "attack": described(attack),
        "defence": described(defence),
        "seed": seed,
        "scale": described(scale),
        "model": model_hash(scale.model),
        "code": code_hash(),
        "own_code": own_code(*objectives.REGISTRY.values(), *JUDGES.values()),
        "libraries": {name: version(name) for name in LIBRARIES},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def described(value: Any) -> Any:
    """A frozen config as JSON, the types' names included: two kinds of data with the same fields are not the same."""
    if is_dataclass(value) and not isinstance(value, type):
        own = {"code": code} if (code := own_code(type(value))) else {}
        parts = {f.name: described(getattr(value, f.name)) for f in fields(value)}
        return {"type": type(value).__name__, **own, **parts}
    if isinstance(value, Settings):
        return described(value.model_dump(mode="json"))
    if isinstance(value, dict):
        return {str(key): described(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [described(each) for each in value]
    if value is not None and not isinstance(value, str | int | float | bool):
        kind = type(value).__name__
        raise InputError(f"'{kind}' in an attack or a defence: expected a frozen dataclass, whose fields name the cell")
    return value


def model_hash(name: str) -> str:
    """Of the files of an embedded model or a folder; a hub id stands for itself."""
    folder = tiny_path(name) if name.startswith(PREFIX) else Path(name).expanduser()
    return _hash_of(folder, sorted(folder.glob("*"))) if folder.is_dir() else name


def own_code(*made: object) -> list[str]:
    """Hashes of the files outside the package that these classes and functions come from: they change between runs too."""
    package = Path(holdfast.__file__).parent
    names = {getattr(sys.modules.get(getattr(each, "__module__", "")), "__file__", None) for each in made}
    files = [path for name in names if name and package not in (path := Path(name).absolute()).parents]
    return sorted(_hash_of(path.parent, [path]) for path in files)


@cache
def code_hash() -> str:
    """Of every source file that has a part in a cell."""
    package = Path(holdfast.__file__).parent
    files = sorted(package.rglob("*.py"))
    return _hash_of(package, [path for path in files if path.relative_to(package).parts[0] not in NO_PART_IN_CELLS])


def _hash_of(root: Path, files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        if path.is_file():
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            found = path.stat()
            digest.update(_file_hash(path, (found.st_size, found.st_mtime_ns)))
    return digest.hexdigest()


@cache
def _file_hash(path: Path, state: tuple[int, int]) -> bytes:
    """Once for each ``state`` of a file: a matrix asks for its model's hash in every cell, and weights are large."""
    del state  # only there to be cached by
    return hashlib.sha256(path.read_bytes()).digest()
