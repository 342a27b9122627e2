"""Candidate answers in a text: numbers, \\boxed, multiple choice, code blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from holdfast.config import InputError, nearest_or_all


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer as it stands in the text, in a form that can be compared, and where."""

    answer: str
    start: int
    end: int


Extractor = Callable[[str], Iterator[Candidate]]

MAX_EXPONENT = 1000
"""Digits that a response may ask for without writing them: ``\\boxed{1e999999999}`` would not fit into memory."""

_NUMBER = re.compile(r"(?<![\w.])-?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+)?(?!\w)")
# In "choice is a dog", "the answer I get" and "I'd say" no letter is chosen.
_WORD = r"(?-i:a|[iI])(?:['\u2019]|[ \t]+(?!(?:is|because|since|as|and|or)\b)\w)"
_CHOICE = re.compile(
    rf"(?:answer|option|choice)\s*(?:is|:)?\s*\**\(?(?!{_WORD})([A-J])\b\)?|\(([A-J])\)|^\s*\**([A-J])\**\s*[.:)]?\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_CODE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)


def numbers(text: str) -> Iterator[Candidate]:
    """Every number: ``1,234``, ``-3.50``, ``1/2``. Thousands' commas, a dollar sign and trailing zeros do not count."""
    for match in _NUMBER.finditer(text):
        yield Candidate(plain_number(match.group()), *match.span())


def boxed(text: str) -> Iterator[Candidate]:
    """The contents of every ``\\boxed{...}``, braces inside included."""
    for match in re.finditer(r"\\boxed\s*\{", text):
        depth, at = 1, match.end()
        while at < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        if depth == 0:  # otherwise the text is cut off inside the braces
            inside = text[match.end() : at - 1].strip()
            yield Candidate(plain_number(inside), match.start(), at)


def choices(text: str) -> Iterator[Candidate]:
    """Letters A to J given as an answer: ``the answer is (B)``, ``(B)``, or a line of its own."""
    for match in _CHOICE.finditer(text):
        yield Candidate(next(filter(None, match.groups())).upper(), *match.span())


def code_blocks(text: str) -> Iterator[Candidate]:
    """Fenced blocks; blanks at the ends of lines do not count."""
    for match in _CODE.finditer(text):
        lines = [line.rstrip() for line in match.group(1).strip().splitlines()]
        yield Candidate("\n".join(lines), *match.span())


def plain_number(text: str) -> str:
    """One spelling per number, exact however long it is; anything else, 1e999999 among it, is left as it is."""
    bare = text.strip().replace(",", "").replace("$", "").rstrip(".")
    try:
        value = Decimal(bare)
    except InvalidOperation:
        return text.strip()
    if not value.is_finite() or abs(value.adjusted()) > len(bare) + MAX_EXPONENT:
        return text.strip()
    spelled = format(value, "f")  # not normalize(), which rounds to 28 digits
    spelled = spelled.rstrip("0").rstrip(".") if "." in spelled else spelled
    return spelled.lstrip("-") if not value else spelled


EXTRACTORS: dict[str, Extractor] = {"number": numbers, "boxed": boxed, "choice": choices, "code": code_blocks}


def find_extractor(name: str) -> Extractor:
    """The extractor of that name. Raises ``InputError`` where there is none."""
    if name not in EXTRACTORS:
        raise InputError(f"extract=: no '{name}'{nearest_or_all(name, EXTRACTORS)}")
    return EXTRACTORS[name]


def reference_answer(text: str, extract: Extractor) -> str:
    """The reference in the extractor's form: its last candidate (GSM8K writes ``... #### 72``), or the text itself."""
    answers = [candidate.answer for candidate in extract(text)]
    return answers[-1] if answers else plain_number(text)
