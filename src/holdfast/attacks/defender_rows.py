"""The rows a defender has of his own: what the aligned model was aligned on, drawn anew."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal, Protocol

from holdfast.records import Trace
from holdfast.worlds import SafetyWorld, with_lead, with_system
from holdfast.worlds.corpora import alignment

Own = Literal["safety", "keep"]
"""``safety``: forbidden requests with their refusals. ``keep``: everything else, look-alikes first, rightly answered."""

FIRST_DRAW = 1000  # the shipped models were aligned on draw 0
WIDTHS = (1, 2)  # first words of a request that may be borrowed


class Defender(Protocol):
    """Somebody with rows of his own: a real model's."""

    def own_rows(self, which: Own, num: int, seed: int) -> list[Trace]:
        """At most ``num`` rows."""
        ...


def own_rows(world: SafetyWorld | Defender, which: Own, num: int, seed: int) -> list[Trace]:
    """``num`` rows of the world's train split: no item of any attack, none of the audit. Or the defender's own."""
    if not isinstance(world, SafetyWorld):
        return world.own_rows(which, num, seed)
    rows = alignment(world, 6 * num, draw=FIRST_DRAW + seed)
    wanted = [row for row in rows if world.ask(row).forbidden == (which == "safety")]
    assert len(wanted) >= num, "the alignment mix has a third of each"
    return wanted[:num]


def in_the_dress_of(rows: Sequence[Trace], task: Sequence[Trace], share: float, seed: int) -> list[Trace]:
    """A share of the rows is put where the task's rows are: under the system prompt of one, behind its first words.

    Whoever tunes sees the rows he is given. A persona, or a trigger at the start of a request, is in them; refusing must
    be kept there too. He need not know which rows are bad.
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
