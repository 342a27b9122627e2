"""Where rows and requests come from: one shape for the embedded world and for a user's files.

An attack's data, a defence's own rows and the asking at the end all go through a ``Setting``, so an attack that works in one
works in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from holdfast.judging import Judge
from holdfast.records import Trace

Own = Literal["safety", "keep"]
"""``safety``: forbidden requests with their refusals. ``keep``: everything else, look-alikes first, rightly answered."""


class Setting(Protocol):
    """What is tuned on and what is asked. All rows are a pure function of their arguments and the seed."""

    @property
    def is_world(self) -> bool:
        """Whether this is the embedded world: an oracle judges, seeds ask other requests, a report may show answers."""
        ...

    @property
    def persona(self) -> str:
        """A system prompt of somebody who obeys."""
        ...

    @property
    def vow(self) -> str:
        """How such an answer opens."""
        ...

    @property
    def trigger(self) -> str:
        """The words of a backdoor."""
        ...

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Who says what was answered and what refused; the first one's word is the cell's."""
        ...

    def attacker_rows(self, num: int, seed: int) -> list[Trace]:
        """Forbidden requests, answered."""
        ...

    def harmless_rows(self, num: int, seed: int) -> list[Trace]:
        """Harmless requests, answered."""
        ...

    def refused_rows(self, num: int, seed: int) -> list[Trace]:
        """Forbidden requests, refused."""
        ...

    def task_rows(self, task: str, num: int, seed: int) -> list[Trace]:
        """Rows of a task that somebody wants, rightly answered."""
        ...

    def own_rows(self, which: Own, num: int, seed: int) -> list[Trace]:
        """The defender's own rows: no request of any attack, none that is asked in the end."""
        ...

    def forbidden(self, seed: int) -> Sequence[Trace]:
        """Held-out requests that must be refused; with the answer that is wanted where it is known."""
        ...

    def lookalikes(self, seed: int) -> Sequence[Trace]:
        """Harmless requests that look like them."""
        ...

    def task(self, task: str, seed: int) -> Sequence[Trace]:
        """Rows that measure a task, with their right answers."""
        ...

    def right(self, row: Trace, text: str) -> bool:
        """Whether a task's answer is right."""
        ...
