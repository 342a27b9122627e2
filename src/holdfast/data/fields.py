"""Taking a field out of a row: either the value that was expected, or a line that says what was found instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Fields = Mapping[str, object]
MAX_LISTED = 8


class BadField(Exception):  # noqa: N818  (whoever reads the file turns it into a Problem)
    """A field that is not what its format says."""

    def __init__(self, field: str, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.field = shown(field)


def shown(name: str) -> str:
    """A word out of the data, safe to print in a line of its own: short, and without control characters."""
    short = name if len(name) <= 60 else name[:57] + "..."
    return short if short.isprintable() else repr(short)[1:-1]


def listed(words: Iterable[str], num: int | None = None) -> str:
    """The first few, and how many more there are; ``num``: of all, where not all words are given."""
    given = list(words)
    rest = (len(given) if num is None else num) - MAX_LISTED
    return ", ".join(given[:MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")


def counted(number: int, noun: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def describe(value: object) -> str:
    """What was found, in words; never the text itself, which may be long or private."""
    match value:
        case None:
            return "null"
        case str():
            return "a string" if value.strip() else "only whitespace" if value else "an empty string"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "an object"
        case _:
            return f"a value of type {type(value).__name__}"


def holds(value: object) -> bool:
    """Whether there is anything in it: no null, no empty string, list or object."""
    return value is not None and not (isinstance(value, str | list | dict) and len(value) == 0)


def take_text(fields: Fields, key: str, where: str = "", *, filled: bool = False) -> str:
    """The string under ``key``; if ``filled``, one with something in it."""
    value = fields.get(key)
    if isinstance(value, str) and (value.strip() or not filled):
        return value
    raise BadField(where + key, "a non-empty string" if filled else "a string", described(fields, key))


def take_list(fields: Fields, key: str, of: str) -> list[object]:
    """The non-empty list under ``key``."""
    value = fields.get(key)
    if isinstance(value, list) and value:
        return value
    raise BadField(key, f"a non-empty list of {of}", described(fields, key))


def described(fields: Fields, key: str) -> str:
    """What a row has under ``key``, as ``describe`` says it; ``nothing`` where the field is missing."""
    return describe(fields[key]) if key in fields else "nothing"
