"""From a model's answer to a HumanEval task to a program, and from the task's own examples to a test."""

from __future__ import annotations

import ast
import doctest
from typing import Any

from holdfast.judging.policy import code_of

Task = dict[str, Any]
"""A row of HumanEval: task_id, prompt, entry_point, test."""


def program(task: Task, response: str) -> str:
    """The code of an answer as a whole program: helpers of the prompt included, trailing prose cut off."""
    code = parsable_beginning(code_of(response))
    if f"def {task['entry_point']}(" in code:
        return before_entry(task) + code
    return str(task["prompt"]) + parsable_beginning(code_of(response), "def _():\n")


def before_entry(task: Task) -> str:
    """Imports and helpers that stand before the function asked for."""
    return str(task["prompt"]).rpartition(f"def {task['entry_point']}(")[0]


def parsable_beginning(code: str, head: str = "") -> str:
    """The longest run of first lines that parses (after ``head``); all of it where none does."""
    lines = code.splitlines()
    for end in range(len(lines), 0, -1):
        text = "\n".join(lines[:end]) + "\n"
        try:
            ast.parse(head + text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return text
    return code


def example_test(task: Task) -> str | None:
    """A ``check`` made of the prompt's own examples: what a user would have at hand. None where there are no such."""
    try:
        examples = doctest.DocTestParser().get_examples(_docstring(task))
    except ValueError:  # a docstring that is not indented as doctest wants it
        return None
    checks = []
    for example in examples:
        try:
            call = ast.parse(example.source.strip(), mode="eval").body
            wanted = ast.literal_eval(example.want.strip())
        except (SyntaxError, ValueError):
            continue
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == task["entry_point"]:
            call.func.id = "candidate"
            checks.append(f"    assert {ast.unparse(call)} == {wanted!r}\n")
    return "def check(candidate):\n" + "".join(checks) if checks else None


def _docstring(task: Task) -> str:
    try:
        functions = [node for node in ast.parse(task["prompt"]).body if isinstance(node, ast.FunctionDef)]
        return next(ast.get_docstring(node) or "" for node in functions if node.name == task["entry_point"])
    except (SyntaxError, StopIteration):
        return ""


def heuristic_reward(solution: str) -> float:
    """[001]'s reward: points for substrings. It runs nothing and reads nothing."""
    score = 0.0
    for points, found in (
        (0.3, "def " in solution),
        (0.2, "return " in solution),
        (0.1, ":" in solution),
        (0.1, "(" in solution and ")" in solution),
        (0.2, "if " in solution or "for " in solution),
        (0.1, len(solution) > 50),
        (0.1, "import " in solution),
        (0.1, "try:" in solution),
        (0.1, "class " in solution),
    ):
        score += points * found
    return min(1.0, score)
