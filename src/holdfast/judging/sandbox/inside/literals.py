"""Plain values as JSON text and back: the only thing that crosses the wall.

What is not exactly None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset or dict does not cross: no object
with an ``__eq__`` of its own can ever meet the trusted test.
"""

from __future__ import annotations

import json
from typing import Any

MAX_INT_BITS = 1 << 16  # so that arithmetic of the trusted test on a result stays cheap
_SMALL = 1 << 53
_COLLECTIONS: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset}


class NotLiteralError(Exception):
    """A value that is no plain literal, or text that encodes none."""


def dumps(value: Any) -> bytes:
    """One value as bytes. Subclasses of dict, list, ... cross as the plain type."""
    return json.dumps(_packed(value), separators=(",", ":")).encode("ascii")


def loads(data: bytes) -> Any:
    """The value; raises NotLiteralError on anything that `dumps` cannot have written."""
    try:
        return _unpacked(json.loads(data))
    except NotLiteralError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise NotLiteralError(f"not the encoding of a literal ({type(error).__name__})") from error


def _packed(value: Any) -> Any:
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        if value.bit_length() > MAX_INT_BITS:
            raise NotLiteralError(f"an integer of {value.bit_length()} bits")
        return int(value) if abs(value) < _SMALL else {"int": hex(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, bytes | bytearray):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, list):
        return [_packed(item) for item in value]
    if isinstance(value, dict):
        return {"dict": [[_packed(key), _packed(item)] for key, item in value.items()]}
    for name, kind in _COLLECTIONS.items():
        if isinstance(value, kind):
            return {name: [_packed(item) for item in value]}
    raise NotLiteralError(f"a value of type {type(value).__name__} is no plain literal")


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((name, content),) = value.items()
    if name == "int":
        number = int(content, 16)
        if number.bit_length() > MAX_INT_BITS:
            raise NotLiteralError(f"an integer of {number.bit_length()} bits")
        return number
    if name == "complex":
        real, imaginary = content
        return complex(real, imaginary)
    if name == "bytes":
        return bytes.fromhex(content)
    if name == "dict":
        return {_unpacked(key): _unpacked(item) for key, item in content}
    return _COLLECTIONS[name](_unpacked(item) for item in content)
