"""The embedded world's own suites: its oracle knows what is forbidden and what is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.audits.requests import MAX_NEW_TOKENS, NUM_REQUESTS, held_out
from holdfast.audits.suites.requests import RequestSuite
from holdfast.audits.suites.suite import Questions, Scored, is_missing, share
from holdfast.judging import Judge, WorldJudge
from holdfast.records import Completion, Group, Trace
from holdfast.worlds import SafetyWorld

SKILLS = ("skill", "recipe")


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
