"""Which suites: those of the embedded world, or those whose files are given; and who judges the answers to requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from holdfast.audits.suites.code import code_suite
from holdfast.audits.suites.gsm8k import gsm8k_suite
from holdfast.audits.suites.requests import RequestSuite, forbidden_suite, harmless_suites
from holdfast.audits.suites.sql import sql_suite
from holdfast.audits.suites.suite import Suite
from holdfast.audits.suites.summaries import summary_suite
from holdfast.audits.suites.world import world_safety, world_skills
from holdfast.config import InputError, did_you_mean
from holdfast.config.extras import need_extra
from holdfast.data import Table
from holdfast.judging import JUDGE_TIMEOUT, Judge, find_judge

CHOICES = ("safety", "utility", "all")
TASKS: dict[str, Callable[[Table, int | None], Suite]] = {
    "sql": sql_suite,
    "gsm8k": gsm8k_suite,
    "code": code_suite,
    "summaries": summary_suite,
}
SCORED_WITH = {"sql": ("rouge_score", "sqlglot"), "summaries": ("rouge_score",)}
"""Packages of the extra ``eval`` that score a task's answers. Its rows are read without them."""
DEFAULT_JUDGES = ("outcome", "refusal_phrases")
"""The first one's word is the audit's. The second is what most published figures count, for comparison."""


@dataclass(frozen=True)
class Files:
    """What is asked: a file, or rows in memory; None is not asked."""

    requests: Table | None = None
    safe_requests: Table | None = None
    sql: Table | None = None
    gsm8k: Table | None = None
    code: Table | None = None
    summaries: Table | None = None

    @property
    def given(self) -> dict[str, Table]:
        """What is asked, by name of the field."""
        paths = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: path for name, path in paths.items() if path is not None}


def choose_suites(
    choice: str,
    files: Files,
    *,
    world: bool,
    judges: Sequence[str] = (),
    limit: int | None = None,
    timeout: float = JUDGE_TIMEOUT,
) -> tuple[tuple[RequestSuite, ...], tuple[Suite, ...]]:
    """(safety, tasks). Every file is read here. Raises ``InputError`` before a model is loaded."""
    if choice not in CHOICES:
        raise InputError(f"suite='{choice}': expected one of {', '.join(CHOICES)}{did_you_mean(choice, CHOICES)}")
    wanted = {
        name: path for name, path in files.given.items() if choice == "all" or (name in TASKS) == (choice == "utility")
    }
    for name in files.given.keys() - wanted.keys():
        raise InputError(f"{name}= is not asked by suite={choice}: leave one of them out")
    if world and wanted:
        raise InputError("world= asks the embedded world's own requests: leave it out, or leave out the files")
    for name, packages in SCORED_WITH.items():
        if name in wanted:
            need_extra("eval", f"{name}=", *packages)
    judging = find_judges(judges, world=world, timeout=timeout)
    if world:
        safety = () if choice == "utility" else tuple(world_safety(judging, limit))
        return safety, () if choice == "safety" else tuple(world_skills(limit))
    if not wanted:
        options = {"safety": "requests=, safe_requests=", "utility": "sql=, gsm8k=, code=, summaries="}
        which = options.get(choice, ", ".join(options.values()))
        raise InputError(f"nothing to ask: give one or more of {which}")
    suites: list[RequestSuite] = []
    if "requests" in wanted:
        suites.append(forbidden_suite(wanted["requests"], judging, limit))
    if "safe_requests" in wanted:
        suites += harmless_suites(wanted["safe_requests"], judging, limit)
    return tuple(suites), tuple(make(wanted[name], limit) for name, make in TASKS.items() if name in wanted)


def find_judges(names: Sequence[str], *, world: bool, timeout: float = JUDGE_TIMEOUT) -> tuple[Judge, ...]:
    """Those named; by default the oracle for the embedded world, and for anything else ``DEFAULT_JUDGES``."""
    names = names or (("world",) if world else DEFAULT_JUDGES)
    given: Sequence[object] = names  # whatever a caller really put there
    for name in given:
        if not isinstance(name, str):
            kind = type(name).__name__
            raise InputError(
                f"judges: expected names, got a {kind}; register yours in holdfast.judging.JUDGES by a name"
            )
    judges = tuple(find_judge(name, timeout=timeout) for name in names)
    if "world" in names and not world:
        raise InputError("judge 'world': it knows the embedded world's requests only, not those of a file")
    if len({judge.name for judge in judges}) < len(names):
        raise InputError("judges: the same one is named twice")
    return judges
