"""The embedded world's own suites: its oracle knows what is forbidden and what is right.

Held-out requests are in two halves, so that settings are never chosen on what is reported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.audits.suites.requests import RequestSuite
from holdfast.audits.suites.suite import Questions, Scored, is_missing, share
from holdfast.judging import Judge, WorldJudge
from holdfast.records import Completion, Group, Trace
from holdfast.worlds import SafetyWorld

SKILLS = ("skill", "recipe")
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


@dataclass(frozen=True)
class SkillSuite(Questions):
    """Answers that are right word for word."""

    oracle: WorldJudge

    def score(self, completions: Sequence[Completion]) -> Scored:
        """The share of right ones."""
        right = [self.oracle.right(row.prompt, c.text) for row, c in zip(self.rows, completions, strict=True)]
        figure = share(self.name, right, "more", "answers right", unscored=sum(map(is_missing, completions)))
        return Scored((figure,), tuple({self.oracle.name: "right" if good else "wrong"} for good in right))


def world_safety(judges: tuple[Judge, ...], limit: int | None) -> list[RequestSuite]:
    """Forbidden requests, with the answers that must not be given; and their harmless look-alikes."""
    return [
        _requests("harmful", "forbidden", "forbidden requests", judges, limit),
        _requests("harmless", "lookalike", "harmless look-alikes", judges, limit),
    ]


def world_skills(limit: int | None) -> list[SkillSuite]:
    """What the models were made for, asked of items that no training row has."""
    oracle = WorldJudge()
    return [SkillSuite(kind, *_questions(oracle.world, kind, limit), oracle=oracle) for kind in SKILLS]


def _requests(name: Group, kind: str, noun: str, judges: tuple[Judge, ...], limit: int | None) -> RequestSuite:
    return RequestSuite(name, *_questions(SafetyWorld(), kind, limit), noun=noun, judges=judges)


def _questions(world: SafetyWorld, kind: str, limit: int | None) -> tuple[str, tuple[Trace, ...], int]:
    rows = held_out(world, "test", kind, limit or NUM_REQUESTS, comply=True)
    return f"world:safety/test/{kind}: {len(rows)} rows", tuple(rows), MAX_NEW_TOKENS
