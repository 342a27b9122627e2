"""`--json FILE` (`-` for stdout): the same figures for a program that a person sees as a table."""

from __future__ import annotations

import json as json_format
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from holdfast.config.errors import InputError


def check_target(param: typer.CallbackParam, path: Path | None) -> Path | None:
    """Refuse a file that cannot be written before hours of work, not after."""
    if path is None or (str(path) == "-" and "--json" in param.opts):
        return path
    if str(path) == "-":
        raise InputError(f"{param.opts[-1]} -: expected a file to write; for stdout give /dev/stdout")
    if path.is_dir():
        raise InputError(f"{param.opts[-1]} {path}: is a folder; expected a file to write")
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{param.opts[-1]} {path}: its folder cannot be made: {error.strerror}") from None
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise InputError(f"{param.opts[-1]} {path}: cannot be written here")
    return path


def check_folder(param: typer.CallbackParam, path: Path | None) -> Path | None:
    """The same for a folder. It is not made yet: a mistake elsewhere should leave no folder behind."""
    if path is not None:
        from holdfast.config.base import why_not_writable

        if (reason := why_not_writable(path)) is not None:
            raise InputError(f"{param.opts[-1]} {path}: {reason}")
    return path


json_option = Annotated[
    Path | None, typer.Option("--json", help="Write the figures as JSON; - for stdout", callback=check_target)
]


def as_written(name: str) -> Text:
    """Files, runs and groups are called as their owner likes: 'exp[lr=1e-3]' is no markup, and no name steers a terminal."""
    return Text("".join(char if char.isprintable() else repr(char)[1:-1] for char in name))


def is_narrow() -> bool:
    """Whether stdout cannot write every character: JSON spells them out there, or nobody could read it back."""
    return not (sys.stdout.encoding or "utf-8").lower().startswith("utf")


def write_json(target: Path | None, value: Any) -> bool:
    """Write ``value`` where asked; returns whether stdout is taken, so that no table is printed on top of it."""
    if target is None:
        return False
    to_stdout = str(target) in ("-", "/dev/stdout")
    text = json_format.dumps(value, indent=2, ensure_ascii=to_stdout and is_narrow()) + "\n"
    if to_stdout:
        sys.stdout.write(text)
    else:
        from holdfast.data import atomic_text

        with atomic_text(target) as file:
            file.write(text)
    return to_stdout
