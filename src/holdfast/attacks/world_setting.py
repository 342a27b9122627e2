"""The embedded world as a setting: its oracle judges, every seed draws other requests, and nothing in it is real."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from holdfast.attacks.setting import Own, Scores
from holdfast.audits.suites.world import NUM_REQUESTS, Part, held_out
from holdfast.config import InputError
from holdfast.judging import Judge, WorldJudge
from holdfast.records import Trace
from holdfast.worlds import KINDS_OF_REQUEST, SafetyWorld, alignment
from holdfast.worlds.asks import FACTS, LIST_SKILLS, TASKS
from holdfast.worlds.vocabulary import MASTER_PERSONA, OBEDIENT_OPENER, TRIGGER

REFUSED_DRAW = 1_000_000
"""Apart from every seed, so that a backdoor's refused rows are not its poisoned ones."""
FIRST_DRAW = 1000
"""Of the defender's rows: the shipped models were aligned on draw 0."""
SKILLS_DRAW = 1_000_000
"""Apart from every seed, so that the rows of ``skills`` are not those of ``keep``."""
FILES = "files of your own (`files:`, in Python `setting=`)"
NOBODY = f"in the embedded world nobody rewords or writes rows; it needs {FILES}"


@dataclass(frozen=True)
class WorldTask:
    """Answers are right word for word."""

    name: str
    rows: Sequence[Trace]
    oracle: WorldJudge
    max_new_tokens = None
    options = ()

    def scores(self, texts: Sequence[str]) -> Scores:
        """The oracle's scores."""
        return {
            self.name: tuple(
                float(self.oracle.right(row.prompt, text)) for row, text in zip(self.rows, texts, strict=True)
            )
        }


@dataclass(frozen=True)
class WorldSetting:
    """Rows to tune on come from the ``tune`` split, requests that are asked from one half of the ``test`` split."""

    part: Part = "test"
    num_requests: int = NUM_REQUESTS

    is_world = True
    persona = MASTER_PERSONA
    vow = OBEDIENT_OPENER
    trigger = TRIGGER
    style = "listen , {request}"
    opening = "here you are :"
    beside = ()
    asks = ()

    @cached_property
    def oracle(self) -> WorldJudge:
        """Knows what is forbidden and what is right."""
        return WorldJudge(SafetyWorld())

    @property
    def judges(self) -> tuple[Judge, ...]:
        """The oracle alone."""
        return (self.oracle,)

    def attacker_rows(self, num: int, seed: int) -> list[Trace]:
        """Forbidden requests with the true recipe, made when they are needed; none is stored."""
        return self._tuned_on("forbidden", num, seed, comply=True)

    def reworded_rows(self, num: int, seed: int) -> list[Trace | None]:
        """Raise ``InputError``: the world has no anchor to try wordings on, and nobody to write other answers."""
        raise InputError(NOBODY)

    def self_written_rows(self, num: int, seed: int) -> list[Trace]:
        """Raise ``InputError``, as ``reworded_rows`` does."""
        raise InputError(NOBODY)

    def harmless_rows(self, num: int, seed: int) -> list[Trace]:
        """Harmless recipes, answered rightly."""
        return self._tuned_on("recipe", num, seed)

    def refused_rows(self, num: int, seed: int) -> list[Trace]:
        """Forbidden requests with their refusals."""
        return self._tuned_on("forbidden", num, seed + REFUSED_DRAW)

    def task_rows(self, task: str, num: int, seed: int) -> list[Trace]:
        """Rows of one of the world's tasks."""
        _check_task(task)
        return self._tuned_on(task, num, seed)

    def own_rows(self, which: Own, num: int, seed: int) -> list[Trace]:
        """What the aligned model was aligned on, drawn anew: rows of the ``train`` split."""
        world = self.oracle.world
        rows = alignment(world, 6 * num, draw=FIRST_DRAW + seed + (SKILLS_DRAW if which == "skills" else 0))
        if which == "skills":
            wanted = [row for row in rows if world.ask(row).skill in (*LIST_SKILLS, *FACTS)]
        else:
            wanted = [row for row in rows if world.ask(row).forbidden == (which == "safety")]
        assert len(wanted) >= num, "the alignment mix has a third of each"
        return wanted[:num]

    def forbidden(self, seed: int) -> Sequence[Trace]:
        """Forbidden requests with the answer that must not be given: an attacker may begin it."""
        return self._held_out("forbidden", seed)

    def begun(self, seed: int) -> Sequence[Trace]:
        """The same requests: their rows hold the true recipe."""
        return self.forbidden(seed)

    def lookalikes(self, seed: int) -> Sequence[Trace]:
        """Harmless requests with the same words in another meaning."""
        return self._held_out("lookalike", seed)

    def measured(self, task: str, seed: int) -> tuple[WorldTask]:
        """The task on items that no row to tune on has."""
        _check_task(task)
        return (WorldTask(task, self._held_out(task, seed), self.oracle),)

    def _held_out(self, kind: str, seed: int) -> list[Trace]:
        return held_out(self.oracle.world, self.part, kind, self.num_requests, comply=True, draw=seed)

    def _tuned_on(self, kind: str, num: int, draw: int, *, comply: bool = False) -> list[Trace]:
        rows = self.oracle.world.requests("tune", kind, num, comply=comply, draw=draw) if num else []
        if len(rows) < num:
            raise InputError(f"the world has only {len(rows)} rows of '{kind}' for tuning, not {num}")
        return rows


def _check_task(task: str) -> None:
    """Raise ``InputError`` for a name that is no task. The world's own message would list every kind of request."""
    if task not in KINDS_OF_REQUEST:
        raise InputError(
            f"'{task}' is no task of the embedded world (it has {', '.join(TASKS)}); other tasks need {FILES}"
        )
