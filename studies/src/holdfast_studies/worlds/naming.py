"""Rows of the arithmetic world by name: ``world:arithmetic/...``."""

from __future__ import annotations

from holdfast.config import InputError
from holdfast.records import Trace
from holdfast.worlds import DEFAULT_ROWS
from holdfast_studies.worlds.arithmetic import ArithmeticWorld, Size
from holdfast_studies.worlds.arithmetic_text import text_rows
from holdfast_studies.worlds.arithmetic_writing import rows_of_kind

FORM = (
    "world:arithmetic/KIND/SIZES or world:arithmetic/text/KIND/SIZES, such as world:arithmetic/text/reflection/4x5+5x4"
)


def arithmetic_rows(name: str, parts: list[str], limit: int | None) -> tuple[Trace, ...]:
    """``plain/4x1+5x1``: words of the micro world; ``text/reflection/4x5+5x4``: English, for real models."""
    num = limit or DEFAULT_ROWS
    in_english = parts[:1] == ["text"]
    parts = parts[1:] if in_english else parts
    kinds = ("plain", "reflection") if in_english else ("corpus", "plain", "reflection")
    if len(parts) != 2 or parts[0] not in kinds:
        raise InputError(f"data '{name}': expected {FORM}")
    sizes = [Size.read(size) for size in parts[1].split("+")]
    if in_english:
        return tuple(text_rows(parts[0], sizes, num))
    return tuple(rows_of_kind(ArithmeticWorld(), parts[0], sizes, num))
