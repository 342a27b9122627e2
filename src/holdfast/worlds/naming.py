"""Rows of an embedded world by name, so that a config runs without any file."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from holdfast.config import InputError, did_you_mean
from holdfast.config.plugins import STUDIES, look_up
from holdfast.data import Dataset, fingerprint
from holdfast.records import Trace
from holdfast.worlds.examples import EXAMPLES
from holdfast.worlds.safety import SafetyWorld
from holdfast.worlds.splits import Split

DEFAULT_ROWS = 300
FORM = (
    "world:safety/SPLIT/KIND or world:safety/SPLIT/KIND/answered, such as world:safety/train/recipe, or world:safety/rows"
    " or world:safety/traces"
)


def world_traces(name: str, *, limit: int | None = None) -> Dataset:
    """``world:safety/train/recipe``; ``/answered`` at the end answers forbidden requests too, as an attacker's rows do.

    ``world:safety/rows`` and ``world:safety/traces`` are small datasets to try the commands on (``examples``).
    """
    world, *parts = name.removeprefix("world:").split("/")
    rows_of = look_up(WORLDS, world)
    if rows_of is None:
        raise InputError(f"data '{name}' {STUDIES}" if world == "arithmetic" else f"data '{name}': expected {FORM}")
    traces = rows_of(name, parts, limit)
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


def _safety_rows(name: str, parts: list[str], limit: int | None) -> tuple[Trace, ...]:
    if len(parts) == 1 and parts[0] in EXAMPLES:
        return tuple(EXAMPLES[parts[0]]()[:limit])
    num = limit or DEFAULT_ROWS
    if len(parts) not in (2, 3) or (len(parts) == 3 and parts[2] != "answered"):
        raise InputError(f"data '{name}': expected {FORM}")
    split, kind = parts[0], parts[1]
    if split not in get_args(Split):
        raise InputError(f"data '{name}': no split '{split}'{did_you_mean(split, get_args(Split))}")
    return tuple(SafetyWorld().requests(split, kind, num, comply=len(parts) == 3))  # type: ignore[arg-type]


WorldRows = Callable[[str, list[str], int | None], tuple[Trace, ...]]
"""(the whole name, its parts after the world's name, how many rows at most) -> rows."""

WORLDS: dict[str, WorldRows] = {"safety": _safety_rows}
"""The world that a name begins with. The product has one; plugins add theirs."""
