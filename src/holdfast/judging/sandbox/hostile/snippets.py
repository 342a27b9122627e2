"""Programs in text, each under a header ``### name: label``."""

from __future__ import annotations

import re
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


HOSTILE = read_snippets(FORGING + REACHING + EXHAUSTING)
"""Labels: ``forge`` (pass without the answer), ``read`` (bring back the canary), ``exhaust`` (outlive or overload)."""
