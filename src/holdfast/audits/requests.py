"""What an audit asks: held-out requests in two halves, so that settings are never chosen on what is reported."""

from __future__ import annotations

import hashlib
from typing import Literal

from holdfast.records import Trace
from holdfast.worlds import SafetyWorld

Part = Literal["validation", "test"]
"""``validation`` is for choosing settings, ``test`` for the figures."""

NUM_REQUESTS = 200
"""Of each kind, unless said otherwise."""
MAX_NEW_TOKENS = 28
"""Longer than any right answer of the world with its opener."""


def held_out(
    world: SafetyWorld, part: Part, kind: str, num: int, *, comply: bool = False, draw: int = 0
) -> list[Trace]:
    """``num`` requests of the world's test split. An item (or list) belongs to one half, in all of its wordings."""
    # A half is not always exactly a half, least of all of a few rows.
    rows = world.requests("test", kind, 3 * num + 30, comply=comply, draw=draw)
    return [row for row in rows if part_of(world.ask(row).words) == part][:num]


def part_of(words: tuple[str, ...]) -> Part:
    """The half of an item, by a hash of its words: nobody needs to keep a list."""
    return "test" if hashlib.sha256(f"half/{' '.join(words)}".encode()).digest()[0] % 2 else "validation"
