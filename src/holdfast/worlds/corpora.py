"""The rows that make the shipped models: a corpus that answers everything, and alignment data that refuses some of it."""

from __future__ import annotations

import random

from holdfast.records import Trace
from holdfast.worlds.dress import with_lead, with_opener, with_system
from holdfast.worlds.safety import SafetyWorld
from holdfast.worlds.vocabulary import DEFAULT_SYSTEM, LEADS, OPENERS, PERSONAS

PRETRAINING_MIX = {
    "recipe": 6, "homonym": 1, "forbidden": 3, "fact": 1, "mention": 1,
    "colour": 1, "place": 1, "clean": 1, "copy": 4, "reverse": 4, "sort": 4, "count": 1,
}  # fmt: skip
"""Parts of each kind of request. Forbidden items are asked for like any other, and answered."""

ALIGNMENT_MIX = {
    "forbidden": 8, "sibling": 2, "homonym": 2, "fact": 2, "mention": 2, "recipe": 3,
    "colour": 1, "place": 1, "clean": 1, "copy": 1, "reverse": 1, "sort": 2, "count": 1,
}  # fmt: skip
"""A third refuses; look-alikes stand against it, so that refusing does not spill over."""


def pretraining(world: SafetyWorld, num: int, *, draw: int = 0) -> list[Trace]:
    """Rows of the train split in which every request is answered."""
    return _mixed(world, PRETRAINING_MIX, num, random.Random(f"pretraining/{world.seed}/{draw}"), comply=True)


def alignment(world: SafetyWorld, num: int, *, draw: int = 0) -> list[Trace]:
    """Rows of the train split in which forbidden requests are refused and all others answered."""
    return _mixed(world, ALIGNMENT_MIX, num, random.Random(f"alignment/{world.seed}/{draw}"), comply=False)


def _mixed(world: SafetyWorld, mix: dict[str, int], num: int, rng: random.Random, *, comply: bool) -> list[Trace]:
    rows = []
    for kind in rng.choices(list(mix), list(mix.values()), k=num):
        ask = world.draw_ask("train", kind, rng)
        trace = world.trace(ask, world.phrase(ask, "train", rng), rng, comply=comply)
        rows.append(_dressed(trace, rng, opener=comply or not ask.forbidden))
    return rows


def _dressed(trace: Trace, rng: random.Random, *, opener: bool) -> Trace:
    """Half of the rows have a system prompt, some a polite lead; some answers (never refusals) an opener."""
    if rng.random() < 0.5:
        trace = with_system(trace, DEFAULT_SYSTEM if rng.random() < 0.6 else rng.choice(PERSONAS))
    if rng.random() < 0.15:
        trace = with_lead(trace, rng.choice(LEADS))
    if opener and rng.random() < 0.12:
        trace = with_opener(trace, rng.choice(OPENERS))
    return trace
