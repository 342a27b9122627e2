"""Functions to be written in Python, tested in the sandbox. Rows in HumanEval's shape or in MBPP's."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from holdfast.audits.suites.suite import Questions, Scored, asked_rows, is_missing, question, share
from holdfast.data import BadField, Fields, Table, read_table, take_text
from holdfast.data.fields import take_list
from holdfast.judging import check_code
from holdfast.judging.policy import code_of
from holdfast.records import Completion, Trace, Verdict

HUMANEVAL_PROMPT = "Complete this Python function. Give the whole function in one code block.\n\n```python\n{begun}```"
BODY_OF = "def _():\n"
FIRST_STATEMENT = re.compile(r"^(@\w|(async +)?def |class |from \w+(\.\w+)* import |import \w)", re.MULTILINE)
MBPP_PROMPT = "{text}\n\nGive the whole function in one code block. It must pass this test:\n\n{example}"


@dataclass(frozen=True)
class CodeTask:
    """A function that is asked for: its name, its test, and the code that the request begins with (may be empty)."""

    entry_point: str
    test: str
    begun: str = ""


@dataclass(frozen=True)
class CodeSuite(Questions):
    """pass@1 of one answer to every task."""

    tasks: tuple[CodeTask, ...] = field(repr=False)

    def score(self, completions: Sequence[Completion]) -> Scored:
        """The share of answers whose program passes its test; a program that was stopped by the sandbox fails."""
        with ThreadPoolExecutor(os.cpu_count()) as threads:  # each waits for a process of its own
            verdicts = list(threads.map(_tested, self.tasks, completions))
        passed = [verdict.score == 1 for verdict in verdicts]
        missing = sum(map(is_missing, completions))
        figure = share("code_passed", passed, "more", "functions that pass their test", unscored=missing)
        return Scored((figure,), tuple({"test": verdict.reason} for verdict in verdicts))


def _tested(task: CodeTask, completion: Completion) -> Verdict:
    return check_code(whole_program(task, completion.text), task.test, task.entry_point, trusted=task.begun)


def whole_program(task: CodeTask, response: str) -> str:
    """The code of an answer as a whole program: helpers that the request began with included, prose around it cut off.

    An answer may be the function, or its body only, indented or not: what is measured is the code, not how it is laid out.
    """
    code = code_of(response)
    if re.search(rf"^\s*(def {task.entry_point} *\(|{task.entry_point} *=)", code, re.MULTILINE):
        return task.begun.rpartition(f"def {task.entry_point}(")[0] + parsable_beginning(_from_first_statement(code))
    bodies = [parsable_beginning(body, BODY_OF) for body in _bodies(code)]
    return task.begun + max(bodies, key=lambda body: body.count("\n") if _parses(BODY_OF + body) else 0)


def _from_first_statement(code: str) -> str:
    """Without prose before the code, where the text as it stands does not parse from its first line on."""
    code = textwrap.dedent(code)
    first = FIRST_STATEMENT.search(code)
    return code if first is None or _parses(parsable_beginning(code)) else code[first.start() :]


def _bodies(code: str) -> tuple[str, ...]:
    """The text as it may stand in a function: as it is, with its first line indented again, or with all of its lines indented."""
    return (code, f"    {code.lstrip()}", textwrap.indent(code, "    "))


def _parses(code: str) -> bool:
    try:
        compile(code, "<answer>", "exec", dont_inherit=True)  # ast.parse takes a return outside a function
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def parsable_beginning(code: str, head: str = "") -> str:
    """The longest run of first lines that parses (after ``head``); all of it where none does."""
    lines = code.splitlines()
    for end in range(len(lines), 0, -1):
        text = "\n".join(lines[:end]) + "\n"
        if _parses(head + text):
            return text
    return code


def code_suite(table: Table, limit: int | None) -> CodeSuite:
    """Rows of HumanEval (``prompt``, ``entry_point``, ``test``) or of MBPP (``text``, ``code``, ``test_list``)."""
    source, chosen = asked_rows(table, read_table(table, _row), limit)
    return CodeSuite(
        name="code",
        source=source,
        rows=tuple(row for row, _ in chosen),
        max_new_tokens=384,
        tasks=tuple(task for _, task in chosen),
    )


def _row(fields: Fields) -> tuple[Trace, CodeTask]:
    return _mbpp(fields) if fields.get("test_list") is not None else _humaneval(fields)


def _humaneval(fields: Fields) -> tuple[Trace, CodeTask]:
    begun, entry_point, test = (take_text(fields, name, filled=True) for name in ("prompt", "entry_point", "test"))
    solution = fields.get("canonical_solution")
    reference = f"```python\n{begun}{solution}```" if isinstance(solution, str) else None
    return question(HUMANEVAL_PROMPT.format(begun=begun), reference), CodeTask(entry_point, test, begun)


def _mbpp(fields: Fields) -> tuple[Trace, CodeTask]:
    text, code = (take_text(fields, name, filled=True) for name in ("text", "code"))
    tests = [test for test in take_list(fields, "test_list", "assertions") if isinstance(test, str)]
    names = re.findall(r"^def (\w+) *\(", code, re.MULTILINE)
    called = [name for name in names if tests and re.search(rf"\b{name} *\(", tests[0])]
    if not called:
        raise BadField("test_list", "a test that calls a function of the field code", "none")
    reference = f"```python\n{code.strip()}\n```"
    task = CodeTask(called[0], "\n".join(tests))
    return question(MBPP_PROMPT.format(text=text, example=tests[0]), reference), task
