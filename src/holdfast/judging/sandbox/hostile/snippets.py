"""Programs in text, each under a header ``### name: label``."""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

from holdfast.judging.sandbox.hostile.exhausting import EXHAUSTING
from holdfast.judging.sandbox.hostile.forging import FORGING
from holdfast.judging.sandbox.hostile.reaching import REACHING


class Snippet(NamedTuple):
    """A program with its name and what it is about."""

    name: str
    label: str
    code: str


def read_snippets(text: str) -> tuple[Snippet, ...]:
    """All of a text's programs, in order."""
    parts = re.split(r"^### (\w+): (.+)$", text, flags=re.MULTILINE)[1:]
    return tuple(map(Snippet, parts[::3], parts[1::3], (code.strip() + "\n" for code in parts[2::3])))


def unguessable() -> int:
    """A number that no program can know."""
    return secrets.randbelow(10**18) + 10**15


def number_test(wanted: int) -> str:
    """The test that a program passes which returns this number."""
    return f"def check(candidate):\n    assert candidate(3) == {wanted}\n"


def hostile_test(program: Snippet, secret: str, path: str) -> str:
    """The test that a hostile program passes only by getting through: ``secret`` stands in the file at ``path``."""
    if program.label == "read":
        return f"def check(candidate):\n    assert {secret!r} in str(candidate({path!r}))\n"
    return number_test(unguessable())


HOSTILE = read_snippets(FORGING + REACHING + EXHAUSTING)
"""Labels: ``forge`` (pass without the answer), ``read`` (bring back the canary), ``exhaust`` (outlive or overload)."""
