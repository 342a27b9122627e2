"""The base of every configuration: frozen, nothing unknown allowed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator

from holdfast.config.errors import InputError


def _as_written(given: Any) -> Any:
    """The value as a file of settings has it: a path is a text, a number of numpy or torch is Python's."""
    if getattr(given, "ndim", None) == 0 and hasattr(given, "item"):
        return given.item()
    return str(given) if isinstance(given, Path) else given


def _as_list(given: Any) -> Any:
    return (given,) if isinstance(given, str | Path) else given


UserPath = Annotated[str, BeforeValidator(_as_written), AfterValidator(os.path.expanduser)]
"""A path, or a name of another kind. A leading ``~`` is the home folder: no shell expands it in ``run=~/mine`` or in YAML."""
UserPaths = Annotated[tuple[UserPath, ...], BeforeValidator(_as_list)]
"""Several of them; one need not be in a list."""


def user_path(given: object, where: str) -> Path:
    """A path that somebody gave in Python, ``~`` being the home folder; of a finished run or a matrix, its folder.

    Raises ``InputError`` for anything else, naming the argument ``where``.
    """
    path = getattr(given, "run", given)
    if not isinstance(path, str | Path) or not str(path):
        got = "an empty text" if path == "" else f"a value of type {type(given).__name__}"
        raise InputError(f"{where}: expected a path, got {got}")
    return Path(path).expanduser()


def why_not_writable(folder: Path) -> str | None:
    """What keeps a folder, there or to be made, from being written, as the end of a sentence; None where nothing does."""
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not there.is_dir():
        return f"cannot be made: {there} is no folder"
    return None if os.access(there, os.W_OK) else "cannot be written here"


class Settings(BaseModel):
    """A frozen piece of a YAML file; an unknown field is an error, not a comment."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _from_python(cls, given: Any) -> Any:
        return {name: _as_written(value) for name, value in given.items()} if isinstance(given, dict) else given
