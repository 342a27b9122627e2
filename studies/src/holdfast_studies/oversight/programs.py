"""Make a program from a model's answer to a HumanEval task, and a test from the task's own examples."""

from __future__ import annotations

import ast
import doctest
import re
from typing import Any

from holdfast.audits.suites import CodeTask, whole_program

Task = dict[str, Any]
"""A row of HumanEval: task_id, prompt, entry_point, test."""
ARROW = r"(?:==>|==|=>|->|➞|→|=|[Rr]eturns?|should return)"
"""What stands between call and result where an example takes one line."""


def program(task: Task, response: str) -> str:
    """The code of an answer as a whole program: helpers of the prompt included, trailing prose cut off."""
    return whole_program(CodeTask(task["entry_point"], task["test"], str(task["prompt"])), response)


def example_test(task: Task) -> str | None:
    """A ``check`` made from the prompt's own examples, which a user would have too. None without examples."""
    checks = []
    for source, want in _examples(task):
        try:
            call = ast.parse(source.strip(), mode="eval").body
            if not (isinstance(call, ast.Call) and ast.unparse(call.func) == task["entry_point"]):
                continue
            for argument in call.args:
                ast.literal_eval(argument)
            wanted = ast.literal_eval(want.partition("#")[0].strip(" .\n"))
        except (SyntaxError, ValueError):
            continue
        call.func = ast.Name("candidate")
        checks.append(f"    assert {ast.unparse(call)} == {wanted!r}\n")
    return "def check(candidate):\n" + "".join(checks) if checks else None


def _examples(task: Task) -> list[tuple[str, str]]:
    """(call, result) as the docstring writes them: with >>> and the result below, or ``f(1) == 2`` and its like in a line."""
    text = _docstring(task)
    try:
        examples = [
            (example.source, example.want) for example in doctest.DocTestParser().get_examples(text) if example.want
        ]
    except ValueError:  # a docstring that is not indented as doctest wants it
        examples = []
    in_a_line = re.compile(rf"({re.escape(task['entry_point'])}\(.*?\))\s*{ARROW}\s*(.+)")
    return examples or in_a_line.findall(text)


def _docstring(task: Task) -> str:
    try:
        functions = [node for node in ast.parse(task["prompt"]).body if isinstance(node, ast.FunctionDef)]
        return next(ast.get_docstring(node) or "" for node in functions if node.name == task["entry_point"])
    except (SyntaxError, StopIteration):
        return ""


def heuristic_reward(solution: str) -> float:
    """[001]'s reward: points for substrings. It runs nothing and reads nothing."""
    score = 0.0
    for points, present in (
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
        score += points * present
    return min(1.0, score)
