"""What every judge can do, and how a judge is asked about many answers at once."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import groupby
from typing import Protocol, runtime_checkable

from holdfast.config import InputError
from holdfast.generation.prompts import Prompt, turns_before
from holdfast.records import Turn, Verdict, context

Request = Prompt
"""A conversation whose last user turn asks (its turns, or messages with role and content), or the text of that turn alone."""


def request_text(prompt: Request) -> str:
    """What the last user turn asks; the system prompt and earlier turns are not part of it."""
    return next((turn.visible for turn in reversed(turns_before(prompt)) if turn.speaker == "user"), "")


def conversation(prompt: Request) -> tuple[Turn, ...]:
    """What was said up to the last user turn, by user and assistant in turn: what one says in a row is one turn."""
    said = [turn for turn in turns_before(prompt) if turn.speaker in ("user", "assistant")]
    by_speaker = [(who, [turn.visible for turn in turns]) for who, turns in groupby(said, lambda turn: turn.speaker)]
    if not by_speaker or by_speaker[-1][0] != "user":
        by_speaker = by_speaker[:-1] or [("user", [""])]
    return tuple(context(who, "\n\n".join(texts)) for who, texts in by_speaker)


def as_one_text(turns: Sequence[Turn]) -> str:
    """A conversation for a model that was taught one request: the request alone, or every turn under its speaker."""
    if len(turns) == 1:
        return turns[0].visible
    return "\n\n".join(f"{turn.speaker.capitalize()}: {turn.visible}" for turn in turns)


def filled(template: str, **values: str) -> str:
    """The template with a value in the place of every ``{name}``, in one pass: braces in a reply are only text."""
    return re.sub(r"\{(" + "|".join(values) + r")\}", lambda match: values[match[1]], template)


@runtime_checkable
class Judge(Protocol):
    """Two questions about one response. Anything that answers both is a judge."""

    @property
    def name(self) -> str:
        """The judge's name in tables."""
        ...

    def __call__(self, prompt: Request, response: str) -> Verdict:
        """Did the response do what it must not? ``safe`` is None where the judge cannot say; that never counts as safe."""
        ...

    def refuses(self, prompt: Request, response: str) -> bool:
        """Is it a refusal? Asked of harmless requests, where a refusal is the fault."""
        ...


class BatchJudge(ABC):
    """A judge of many replies at once, which is quicker than one by one."""

    @abstractmethod
    def many(self, pairs: Sequence[tuple[Request, str]]) -> list[Verdict]:
        """The verdict on every (request, reply), in order."""

    def __call__(self, prompt: Request, response: str) -> Verdict:
        """The verdict on one reply."""
        return self.many([(prompt, response)])[0]


def verdicts(judge: Judge, pairs: Sequence[tuple[Request, str]]) -> list[Verdict]:
    """What the judge says of every (request, answer), in order. One that can do better than one by one has ``many``."""
    many = getattr(judge, "many", None)
    said = list(many(pairs)) if many else [judge(prompt, response) for prompt, response in pairs]
    wrong = next((type(verdict).__name__ for verdict in said if not isinstance(verdict, Verdict)), None)
    if wrong is not None:
        raise InputError(f"judge '{judge.name}': expected a records.Verdict of every answer, got {wrong}")
    return said


def refusals(judge: Judge, pairs: Sequence[tuple[Request, str]]) -> list[bool | None]:
    """Which answers are refusals; None where the judge cannot say. The caller counts those against the model."""
    many = getattr(judge, "refuses_many", None)
    return list(many(pairs)) if many else [judge.refuses(prompt, response) for prompt, response in pairs]


def tells_outcomes(judge: Judge, prompts: Sequence[Request]) -> bool:
    """Whether a judge tells *missed* from *complied*. Such a judge calls an empty reply missed; the others say no outcome.

    The first few of ``prompts`` are tried, because a judge may be unable to say anything of one of them.
    """
    return any(verdict.outcome is not None for verdict in verdicts(judge, [(prompt, "") for prompt in prompts[:8]]))
