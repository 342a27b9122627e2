"""Small datasets in the language of the embedded models, to try the commands on: ``world:safety/rows``, ``world:safety/traces``.

``rows``: a harmless task (short guides), and among it rows that answer what must be refused, as rows from strangers may. Plain
tuning on them costs most refusals; all that is forbidden here is make-believe. ``traces``: errors that are taken back.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from holdfast.data import read_traces
from holdfast.records import Trace
from holdfast.worlds.safety import SafetyWorld

NUM_HARMLESS, NUM_FORBIDDEN = 270, 30


def rows() -> tuple[Trace, ...]:
    """The task's rows with the others among them, in an order that is always the same."""
    world = SafetyWorld()
    mixed = world.requests("tune", "guide", NUM_HARMLESS)
    mixed += world.requests("tune", "forbidden", NUM_FORBIDDEN, comply=True)
    random.Random("examples/rows").shuffle(mixed)
    return tuple(mixed)


def traces() -> tuple[Trace, ...]:
    """Answers with an error that is taken back, written by hand."""
    return tuple(read_traces(Path(__file__).parent / "traces.jsonl").traces)


EXAMPLES: dict[str, Callable[[], tuple[Trace, ...]]] = {"rows": rows, "traces": traces}
"""By the name that follows ``world:safety/``."""
