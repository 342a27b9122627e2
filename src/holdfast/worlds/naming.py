"""Rows of an embedded world by name, so that a config runs without any file."""

from __future__ import annotations

from typing import get_args

from holdfast_studies.worlds.arithmetic import ArithmeticWorld, Size
from holdfast_studies.worlds.arithmetic_text import text_rows
from holdfast_studies.worlds.arithmetic_writing import rows_of_kind

from holdfast.config import InputError, did_you_mean
from holdfast.data import Dataset, fingerprint
from holdfast.records import Trace
from holdfast.worlds.examples import EXAMPLES
from holdfast.worlds.safety import SafetyWorld
from holdfast.worlds.splits import Split

ARITHMETIC_FORM = (
    "world:arithmetic/KIND/SIZES or world:arithmetic/text/KIND/SIZES, such as world:arithmetic/text/reflection/4x5+5x4"
)
DEFAULT_ROWS = 300
FORM = (
    "world:safety/SPLIT/KIND or world:safety/SPLIT/KIND/answered, such as world:safety/train/recipe, or world:safety/rows"
    " or world:safety/traces"
)


def world_traces(name: str, *, limit: int | None = None, draw: int = 0) -> Dataset:
    """``world:safety/train/recipe``; ``/answered`` at the end answers forbidden requests too, as an attacker's rows do.

    ``world:safety/rows`` and ``world:safety/traces`` are small datasets to try the commands on (``examples``).
    """
    parts = name.removeprefix("world:").split("/")
    if parts[0] == "arithmetic":
        return _dataset(name, "arithmetic", _arithmetic(name, parts[1:], limit or DEFAULT_ROWS, draw))
    if len(parts) == 2 and parts[0] == "safety" and parts[1] in EXAMPLES:
        return _dataset(name, "safety", EXAMPLES[parts[1]]()[:limit])
    if len(parts) not in (3, 4) or parts[0] != "safety" or (len(parts) == 4 and parts[3] != "answered"):
        raise InputError(f"data '{name}': expected {FORM}")
    split, kind = parts[1], parts[2]
    if split not in get_args(Split):
        raise InputError(f"data '{name}': no split '{split}'{did_you_mean(split, get_args(Split))}")
    traces = tuple(
        SafetyWorld().requests(split, kind, limit or DEFAULT_ROWS, comply=len(parts) == 4, draw=draw)  # type: ignore[arg-type]
    )
    return _dataset(name, "safety", traces)


def _arithmetic(name: str, parts: list[str], num: int, draw: int) -> tuple[Trace, ...]:
    """``plain/4x1+5x1``: words of the micro world; ``text/reflection/4x5+5x4``: English, for real models."""
    in_english = parts[:1] == ["text"]
    parts = parts[1:] if in_english else parts
    kinds = ("plain", "reflection") if in_english else ("corpus", "plain", "reflection")
    if len(parts) != 2 or parts[0] not in kinds:
        raise InputError(f"data '{name}': expected {ARITHMETIC_FORM}")
    sizes = [Size.read(size) for size in parts[1].split("+")]
    if in_english:
        return tuple(text_rows(parts[0], sizes, num, seed=draw))
    return tuple(rows_of_kind(ArithmeticWorld(), parts[0], sizes, num, seed=draw))


def _dataset(name: str, world: str, traces: tuple[Trace, ...]) -> Dataset:
    return Dataset(
        traces=traces,
        lines=tuple(range(1, len(traces) + 1)),
        format="world",
        sentence=f"{name}: {len(traces)} rows made by the embedded {world} world",
        num_skipped=0,
        problems=(),
        fingerprint=fingerprint(traces),
        source=name,
    )
