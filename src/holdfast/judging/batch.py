"""Many answers judged at once: a judge that can do better than one by one says so by having ``many``."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.config import InputError
from holdfast.judging.judge import Judge, Request
from holdfast.records import Verdict


def verdicts(judge: Judge, pairs: Sequence[tuple[Request, str]]) -> list[Verdict]:
    """What the judge says of every (request, answer), in order."""
    many = getattr(judge, "many", None)
    said = list(many(pairs)) if many else [judge(prompt, response) for prompt, response in pairs]
    wrong = next((type(verdict).__name__ for verdict in said if not isinstance(verdict, Verdict)), None)
    if wrong is not None:
        raise InputError(f"judge '{judge.name}': expected a records.Verdict of every answer, got {wrong}")
    return said


def refusals(judge: Judge, pairs: Sequence[tuple[Request, str]]) -> list[bool | None]:
    """Which answers are refusals; None where the judge cannot say, which is the caller's to count against the model."""
    many = getattr(judge, "refuses_many", None)
    return list(many(pairs)) if many else [judge.refuses(prompt, response) for prompt, response in pairs]


def tells_outcomes(judge: Judge, prompts: Sequence[Request]) -> bool:
    """Whether a judge tells *missed* from *complied*. Such a judge calls an empty reply missed; the others say no outcome.

    The first few of ``prompts`` are tried, because a judge may be unable to say anything of one of them.
    """
    return any(verdict.outcome is not None for verdict in verdicts(judge, [(prompt, "") for prompt in prompts[:8]]))
