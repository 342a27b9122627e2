"""Rows of an embedded world by name, so that a config runs without any file."""

from __future__ import annotations

from typing import get_args

from holdfast.config import InputError, did_you_mean
from holdfast.records import Dataset, fingerprint
from holdfast.worlds.safety import SafetyWorld
from holdfast.worlds.splits import Split

DEFAULT_ROWS = 300
FORM = "world:safety/SPLIT/KIND or world:safety/SPLIT/KIND/answered, such as world:safety/train/recipe"


def world_traces(name: str, *, limit: int | None = None, draw: int = 0) -> Dataset:
    """``world:safety/train/recipe``; ``/answered`` at the end answers forbidden requests too, as an attacker's rows do."""
    parts = name.removeprefix("world:").split("/")
    if len(parts) not in (3, 4) or parts[0] != "safety" or (len(parts) == 4 and parts[3] != "answered"):
        raise InputError(f"data '{name}': expected {FORM}")
    split, kind = parts[1], parts[2]
    if split not in get_args(Split):
        raise InputError(f"data '{name}': no split '{split}'{did_you_mean(split, get_args(Split))}")
    traces = tuple(
        SafetyWorld().requests(split, kind, limit or DEFAULT_ROWS, comply=len(parts) == 4, draw=draw)  # type: ignore[arg-type]
    )
    return Dataset(
        traces=traces,
        lines=tuple(range(1, len(traces) + 1)),
        format="world",
        sentence=f"{name}: {len(traces)} rows made by the embedded safety world",
        num_skipped=0,
        problems=(),
        fingerprint=fingerprint(traces),
        source=name,
    )
