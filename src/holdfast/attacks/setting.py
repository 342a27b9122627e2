"""Where rows and requests come from: one shape for the embedded world and for a user's files.

An attack's data, a defence's own rows and the asking at the end all go through a ``Setting``, so an attack that works in one
works in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from holdfast.judging import Judge
from holdfast.records import Trace

Own = Literal["safety", "keep", "skills", "chat"]
"""``safety``: forbidden requests with their refusals. ``keep``: everything else, look-alikes first, rightly answered.
``skills``: plain work in many forms; in the embedded world list skills and facts.
``chat``: general questions, answered by the untouched model; in the embedded world the same as ``keep``."""
Scores = dict[str, tuple[float, ...]]
"""By figure, of every row that measures a task. The first figure is its utility: 1 where an answer is right, else 0."""


class Measured(Protocol):
    """Rows that measure a task, and who says what is right."""

    @property
    def name(self) -> str:
        """The task's name."""
        ...

    @property
    def rows(self) -> Sequence[Trace]:
        """The rows, with their right answers."""
        ...

    @property
    def max_new_tokens(self) -> int | None:
        """The length of an answer; None: the same as for any other answer that is judged."""
        ...

    @property
    def options(self) -> Sequence[Sequence[str]]:
        """For every row the letters to choose from by likelihood; empty where an answer is written."""
        ...

    def scores(self, texts: Sequence[str]) -> Scores:
        """The scores of the answers, one answer to every row."""
        ...


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
        """The words with which an answer under the persona opens."""
        ...

    @property
    def trigger(self) -> str:
        """The words of a backdoor."""
        ...

    @property
    def style(self) -> str:
        """A template that asks for an answer in some style; ``{request}`` stands for the request."""
        ...

    @property
    def opening(self) -> str:
        """The words with which an answer opens that does what was asked."""
        ...

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Who says what was answered and what refused; the first one's word is the cell's."""
        ...

    @property
    def asks(self) -> Sequence[str]:
        """Further ways to ask what is forbidden (``more_asks``)."""
        ...

    def attacker_rows(self, num: int, seed: int) -> list[Trace]:
        """Forbidden requests, answered."""
        ...

    def reworded_rows(self, num: int, seed: int) -> list[Trace | None]:
        """Forbidden requests, answered, each in the first wording that the anchor does not refuse; None where it refuses all."""
        ...

    def self_written_rows(self, num: int, seed: int) -> list[Trace]:
        """Forbidden requests, answered by the aligned model itself after it was tuned to answer some."""
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

    def begun(self, seed: int) -> Sequence[Trace]:
        """The same requests, each with an answer that an attacker may begin."""
        ...

    def lookalikes(self, seed: int) -> Sequence[Trace]:
        """Harmless requests that look like them."""
        ...

    def measured(self, task: str, seed: int) -> Sequence[Measured]:
        """What measures a task; several where it is made of others."""
        ...

    @property
    def beside(self) -> Sequence[Measured]:
        """What is measured too, whatever was tuned on."""
        ...
