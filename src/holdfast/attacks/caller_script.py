"""The script that starts worker processes: may they import it?

multiprocessing has every worker import the script that started it, so that the worker finds what is defined there. A script
without ``if __name__ == "__main__":`` would run all over again in each of them, so workers are started without it.
"""

from __future__ import annotations

import ast
import multiprocessing
import os
import pickle
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from holdfast.config import InputError

MAIN = "__main__"
GUARD = f'if __name__ == "{MAIN}":'
STARTED_AGAIN = 93
"""Exit code of a worker whose script, imported by the worker, starts workers again."""


def imports_script(*sent: object, parts: Iterable[object] = ()) -> bool:
    """Whether workers import the script that starts them: if it has a guard, or cannot be read to see.

    ``sent``: what workers get. ``parts``: classes and functions that they look up by name.
    Raises ``InputError`` if one is defined in a script without a guard, or in a session.
    """
    script = _script()
    if script is not None and _has_guard(script):
        return True
    of_main = (part for part in parts if getattr(part, "__module__", None) == MAIN)
    name = _defined_in_main(sent) or next((getattr(part, "__qualname__", repr(part)) for part in of_main), None)
    if name is None:
        return False
    if script is None:
        raise InputError(
            f"'{name}' is defined in this session, where worker processes cannot find it: import it from a file"
        )
    raise InputError(
        f"{script}: defines '{name}', so worker processes import this script: put what is to run once below `{GUARD}`"
    )


@contextmanager
def script_left_out(left_out: bool) -> Iterator[None]:
    """Processes started in here import no script, if ``left_out``."""
    script = sys.modules[MAIN]
    if left_out:
        sys.modules[MAIN] = ModuleType(MAIN)
    try:
        yield
    finally:
        sys.modules[MAIN] = script


def end_if_started_again() -> None:
    """End a worker whose import of the script came back to starting workers. Its parent tells the user why."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # as multiprocessing itself knows it
        os._exit(STARTED_AGAIN)


def raise_if_started_again(exit_code: int | None) -> None:
    """Raise ``InputError`` if that is how a worker ended."""
    if exit_code == STARTED_AGAIN:
        raise InputError(
            f"{_script()}: worker processes import this script, and it starts workers again: put that call below `{GUARD}`"
        ) from None


def _script() -> Path | None:
    """The script that was started; None in a notebook or a session."""
    file = getattr(sys.modules[MAIN], "__file__", None)
    return Path(file) if file else None


def _has_guard(script: Path) -> bool:
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError):  # compiled, or in an archive
        return True
    return any(_compares_with_main(node) for node in ast.walk(tree))


def _compares_with_main(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare):
        return False
    sides = (node.left, *node.comparators)
    names = {side.id for side in sides if isinstance(side, ast.Name)}
    values = {side.value for side in sides if isinstance(side, ast.Constant)}
    return "__name__" in names and MAIN in values


class _Pickler(pickle.Pickler):
    """Notes the classes and functions of the script that a pickle refers to."""

    def __init__(self) -> None:
        super().__init__(BytesIO())
        self.defined_in_main: list[str] = []

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type | FunctionType) and value.__module__ == MAIN:
            self.defined_in_main.append(value.__qualname__)
        return NotImplemented


def _defined_in_main(sent: object) -> str | None:
    pickler = _Pickler()
    pickler.dump(sent)
    return next(iter(pickler.defined_in_main), None)
