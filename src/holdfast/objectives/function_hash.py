"""A hash of what an objective of the user's own computes: a run is not to go on with another loss unnoticed."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType

from holdfast.objectives.objective import Objective

PLAIN = (int, float, str, bytes, type(None))


def function_hash(objective: Objective) -> str | None:
    """A hash of its function and schedules, with the functions and plain values that they use from the same file.

    Comments and line numbers do not count; what is imported from other files is not looked at. It begins with Python's version,
    because bytecode differs between versions. None where a part is no plain function.
    """
    functions: list[Callable[..., object]] = [objective.function, *objective.schedule.values()]
    digest = hashlib.sha256()
    for function in functions:
        if not isinstance(function, FunctionType):
            return None
        for part in _parts(function, set()):
            digest.update(f"{part}\0".encode())
    return f"python {'.'.join(platform.python_version_tuple()[:2])}, sha256 {digest.hexdigest()}"


def _parts(function: FunctionType, seen: set[FunctionType]) -> Iterator[str]:
    seen.add(function)
    names: list[str] = []
    for code in _nested(function.__code__):
        constants = [value for value in code.co_consts if value != function.__doc__ and not isinstance(value, CodeType)]
        names += code.co_names
        yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {list(map(_text, constants))}"
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    used = {name: function.__globals__[name] for name in names if name in function.__globals__}
    used |= {name: cell.cell_contents for name, cell in cells.items()}
    used |= {"defaults": function.__defaults__, **(function.__kwdefaults__ or {})}
    for name, value in sorted(used.items()):
        if isinstance(value, FunctionType) and value.__globals__ is function.__globals__:
            if value not in seen:
                yield from _parts(value, seen)
        else:
            yield f"{name} {_text(value)}"


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _nested(value)


def _text(value: object) -> str:
    """A plain value; of another, whose text may differ from process to process, the type."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_text(key)}: {_text(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, frozenset | set):
        return f"set {sorted(map(_text, value))}"
    return repr(value) if isinstance(value, PLAIN) else type(value).__name__
