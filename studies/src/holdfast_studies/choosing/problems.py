"""HumanEval and MBPP: what is asked, the tests that the prompt shows, those that score, and inputs to compare programs on."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.audits.suites import CodeTask, code_suite
from holdfast.records import Turn
from holdfast_studies.choosing.config import ChoosingConfig
from holdfast_studies.oversight.programs import example_test

NUM_INPUTS = 12  # at most, those of the prompt included
Call = tuple[Any, ...]
"""The arguments of one call, plain literals."""


@dataclass(frozen=True)
class Problem:
    """A function to be written. ``shown`` are the tests in the prompt, ``scoring`` the others that it is graded by.

    MBPP grades by ``shown`` too: its prompt shows the first of the tests that score.
    """

    name: str
    turns: tuple[Turn, ...]
    task: CodeTask
    shown: str | None
    scoring: str
    shown_scores: bool
    num_shown: int
    num_overlapping: int  # tests of the prompt that are also among those that score
    inputs: tuple[Call, ...]


def read_problems(config: ChoosingConfig, domain: str) -> list[Problem]:
    """The first ``num_tasks`` of the file, or all."""
    suite = code_suite(Path(config.path(domain)), None)
    pairs = zip(suite.rows, suite.tasks, strict=True)
    problems = [
        _humaneval(f"{domain}/{number}", row.prompt, task)
        if task.begun
        else _mbpp(f"{domain}/{number}", row.prompt, task)
        for number, (row, task) in enumerate(pairs)
    ]
    return problems[: config.num_tasks.get(domain)]


def _humaneval(name: str, turns: tuple[Turn, ...], task: CodeTask) -> Problem:
    shown = example_test({"prompt": task.begun, "entry_point": task.entry_point})
    own, others = _equations(shown or "", "candidate"), _equations(task.test, "candidate")
    overlapping = sum(equation in others for equation in own)
    inputs = _inputs(shown or "", "candidate", name)
    return Problem(name, turns, task, shown, task.test, False, len(own), overlapping, inputs)


def _mbpp(name: str, turns: tuple[Turn, ...], task: CodeTask) -> Problem:
    first, *others = (ast.unparse(statement) for statement in ast.parse(task.test).body)
    inputs = _inputs(first, task.entry_point, name)
    return Problem(name, turns, task, first, "\n".join(others) or first, True, 1, 1, inputs)


def _equations(test: str, function: str) -> set[tuple[str, str]]:
    """(call, result) of every assertion that a call equals something; other assertions are left out."""
    equations = set()
    for node in ast.walk(ast.parse(test)):
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Eq):
            call, result = node.test.left, node.test.comparators[0]
            if isinstance(call, ast.Call) and ast.unparse(call.func) == function:
                equations.add((ast.unparse(call), ast.unparse(result)))
    return equations


def _inputs(test: str, function: str, seed: str) -> tuple[Call, ...]:
    """The arguments of the prompt's own calls, and others made of them. No result is needed: programs are compared."""
    calls = list(_calls(test, function))
    made = [*calls]
    luck = random.Random(seed)
    for attempt in range(20 * NUM_INPUTS if calls else 0):
        if len(made) >= NUM_INPUTS:
            break
        other = tuple(changed(value, luck) for value in calls[attempt % len(calls)])
        if other not in made:
            made.append(other)
    return tuple(made[:NUM_INPUTS])


def _calls(test: str, function: str) -> Iterator[Call]:
    for node in ast.walk(ast.parse(test)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == function and not node.keywords:
            try:
                yield tuple(ast.literal_eval(argument) for argument in node.args)
            except (ValueError, SyntaxError):
                continue


def changed(value: Any, luck: random.Random) -> Any:
    """A value of the same kind: a number near it, or a text or list reordered, shortened or extended. It may be equal."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return luck.choice([value, value + 1, abs(value - 1), 2 * value, value + luck.randint(2, 9)])
    if isinstance(value, float):
        return luck.choice([value, value + 1.0, value / 2, 2 * value])
    if isinstance(value, str):
        return "".join(_reordered(list(value), luck))
    if isinstance(value, list | tuple):
        items = [changed(item, luck) for item in _reordered(list(value), luck)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, set | frozenset):
        return type(value)(changed(item, luck) for item in sorted(value, key=repr))
    if isinstance(value, dict):
        return {key: changed(item, luck) for key, item in value.items()}
    return value


def _reordered(items: list[Any], luck: random.Random) -> list[Any]:
    way = luck.randrange(5)
    if way == 0:
        return items[::-1]
    if way == 1 and len(items) > 1:
        return items[: len(items) - 1]
    if way == 2 and items:
        return [*items, luck.choice(items)]
    if way == 3:
        return luck.sample(items, len(items))
    return items


def overlap(problems: Sequence[Problem]) -> dict[str, int]:
    """How many tests the prompts show, and how many of them also score."""
    return {
        "problems": len(problems),
        "problems whose prompt shows a test": sum(problem.shown is not None for problem in problems),
        "tests shown": sum(problem.num_shown for problem in problems),
        "of these also among the tests that score": sum(problem.num_overlapping for problem in problems),
        "problems with such a test": sum(problem.num_overlapping > 0 for problem in problems),
    }
