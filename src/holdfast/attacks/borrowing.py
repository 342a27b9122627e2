"""Rows of the defender under the task's system prompt or behind its first words: refusing must be kept there too."""

from __future__ import annotations

import random
from collections.abc import Sequence

from holdfast.records import Trace
from holdfast.worlds import with_lead, with_system

WIDTHS = (1, 2)  # first words of a request that may be borrowed


def in_the_dress_of(rows: Sequence[Trace], task: Sequence[Trace], share: float, seed: int) -> list[Trace]:
    """Return the rows, a share of them under the system prompt of a random row of the task and behind its first words.

    The task's rows may hold a persona, or a trigger at the start of a request. The defender sees these rows, and need not know
    which of them are bad.
    """
    rng = random.Random(f"dress/{seed}")
    return [_dressed(row, rng.choice(task), rng) if rng.random() < share else row for row in rows]


def _dressed(row: Trace, model: Trace, rng: random.Random) -> Trace:
    system = next((turn for turn in model.turns if turn.speaker == "system"), None)
    bare = Trace(tuple(turn for turn in row.turns if turn.speaker != "system"))
    row = bare if system is None else with_system(bare, system.visible)
    request = next(turn for turn in model.turns if turn.speaker == "user")
    lead = " ".join(request.visible.split()[: rng.choice(WIDTHS)]).rstrip(" ,")
    return with_lead(row, lead) if lead else row
