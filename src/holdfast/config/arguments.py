"""What somebody gave a function in Python, checked against its annotations: one clear line for a wrong type or name.

Annotations are read as text, so nothing is imported for them. One that names more than plain types (a model, rows, a judge) is
left to the function. Numbers of numpy and torch become Python's, and a list of texts may be any iterable of them, or one text.
"""

from __future__ import annotations

import ast
import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, ParamSpec, SupportsFloat, SupportsIndex, TypeVar

from holdfast.config.errors import InputError, nearest_or_all

P = ParamSpec("P")
R = TypeVar("R")
SHOWN = 60
"""Longer values are told by their type."""


class _Kind(NamedTuple):
    """``read`` gives the value as the function wants it; it raises TypeError or ValueError for another kind of value."""

    words: str
    read: Callable[[Any], Any]


def checked(who: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a public function: a wrong argument raises ``InputError``, in which the function is called ``who``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        annotations = {
            name: parameter.annotation
            for name, parameter in signature.parameters.items()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise InputError(f"{who}: {_unknown(kwargs, annotations) or error}") from None
            for name in bound.arguments.keys() & annotations.keys():
                bound.arguments[name] = fitting(who, name, bound.arguments[name], annotations[name])
            return function(*bound.args, **bound.kwargs)

        return call

    return decorate


def check_fields(given: object, who: str, kind: type) -> None:
    """The same for a frozen dataclass, in its ``__post_init__``. ``kind``: the class with the annotations."""
    for name in vars(given).keys() & kind.__annotations__.keys():
        object.__setattr__(given, name, fitting(who, name, getattr(given, name), kind.__annotations__[name]))


def fitting(who: str, name: str, value: Any, annotation: str) -> Any:
    """The value as the annotation wants it. Raises ``InputError`` for a value of another kind."""
    kinds = _kinds(annotation)
    for kind in kinds:
        try:
            return kind.read(value)
        except (TypeError, ValueError, RuntimeError):  # torch: a tensor of several numbers
            continue
    if not kinds:
        return value
    wanted = " or ".join(dict.fromkeys(kind.words for kind in kinds if kind.words != "None"))
    text = repr(value)
    if len(text) > SHOWN or "\n" in text or " at 0x" in text:
        raise InputError(f"{who}: {name}: expected {wanted}, got a value of type {type(value).__name__}")
    raise InputError(f"{who}: {name}={text}: expected {wanted}")


def _unknown(given: Iterable[str], known: Iterable[str]) -> str:
    """About the first name that the function does not have; nothing where all are known."""
    names = list(known)
    unknown = next((name for name in given if name not in names), None)
    return "" if unknown is None else f"no argument '{unknown}'{nearest_or_all(unknown, names)}"


@functools.cache
def _kinds(annotation: str) -> tuple[_Kind, ...]:
    """What may be given; nothing where a part of the annotation is no plain type."""
    kinds = [_kind(part) for part in _parts(ast.parse(annotation, mode="eval").body)]
    return tuple(kind for kind in kinds if kind is not None) if None not in kinds else ()


def _parts(node: ast.expr) -> list[ast.expr]:
    return [*_parts(node.left), *_parts(node.right)] if isinstance(node, ast.BinOp) else [node]


def _kind(node: ast.expr) -> _Kind | None:
    text = ast.unparse(node)
    if text.startswith("Literal["):
        assert isinstance(node, ast.Subscript)
        choices = ast.literal_eval(node.slice)
        return _one_of(choices if isinstance(choices, tuple) else (choices,))
    return KINDS.get(text) or KINDS.get(text.partition("[")[0])


def _one_of(choices: tuple[Any, ...]) -> _Kind:
    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in choices:
            raise ValueError
        return value

    return _Kind(" or ".join(map(str, choices)), read)


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, SupportsFloat | SupportsIndex):
        raise TypeError
    return value if type(value) is int else float(value)


def _flag(value: Any) -> bool:
    if isinstance(value, str) or value not in (True, False):
        raise TypeError
    return bool(value)


def _of(*types: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, types):
            raise TypeError
        return value

    return read


def _function(value: Any) -> Any:
    if not callable(value):
        raise TypeError
    return value


def _all(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Read every item of a list, or of any iterable but a dict and a table of pandas, which would give the names of columns."""

    def read_all(values: Any) -> Any:
        if isinstance(values, Mapping) or hasattr(values, "columns"):
            raise TypeError
        return tuple(read(value) for value in ((values,) if isinstance(values, str) else values))

    return read_all


KINDS = {
    "None": _Kind("None", _of(type(None))),
    "int": _Kind("a whole number", _whole),
    "float": _Kind("a number", _number),
    "bool": _Kind("True or False", _flag),
    "str": _Kind("a text", _of(str)),
    "Mapping": _Kind("settings by name, such as {'name': value}", _of(Mapping)),
    "Sequence[str]": _Kind("a list of texts", _all(_of(str))),
    "Iterable[str]": _Kind("a list of texts", _all(lambda value: value)),  # the function looks at each
    "Sequence[int]": _Kind("a list of whole numbers", _all(_whole)),
    **dict.fromkeys(("Callable", "Progress", "OnProgress", "OnCell"), _Kind("a function", _function)),
}
"""By annotation, with or without what stands in its brackets."""
