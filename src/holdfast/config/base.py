"""The base of every configuration: frozen, nothing unknown allowed."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from holdfast.config.errors import InputError

UserPath = Annotated[str, AfterValidator(os.path.expanduser)]
"""A path, or a name of another kind. A leading ``~`` is the home folder: no shell expands it in ``run=~/mine`` or in YAML."""


def user_path(given: object, where: str) -> Path:
    """A path that somebody gave in Python, ``~`` being the home folder; of a finished run or a matrix, its folder.

    Raises ``InputError`` for anything else, naming the argument ``where``.
    """
    path = getattr(given, "run", given)
    if not isinstance(path, str | Path) or not str(path):
        got = "an empty text" if path == "" else f"a value of type {type(given).__name__}"
        raise InputError(f"{where}: expected a path, got {got}")
    return Path(path).expanduser()


class Settings(BaseModel):
    """A frozen piece of a YAML file; an unknown field is an error, not a comment."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
