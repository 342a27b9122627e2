"""Do rows say what is wanted? Queries or programs as answers to prompts that ask for none may be given to everything later."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice

from holdfast.judging.form import ASKS_CODE, Kind, form_of
from holdfast.records import Trace

NUM_ROWS = 500
"""So many rows are looked at, from the first on."""
FEWEST = 20  # rows that a sentence is said about
MOST = 0.9  # of the rows
PHRASE = 4  # words that prompts have in common, where each has the same instruction
FORMS: dict[Kind, tuple[str, re.Pattern[str]]] = {
    "sql": ("SQL queries", re.compile(r"\bsql\b|\bquer(?:y|ies)\b", re.IGNORECASE)),
    "code": ("programs", ASKS_CODE),
}
"""What the answers are called, and the words by which a prompt asks for one."""


def missing_instruction(rows: Iterable[Trace]) -> str:
    """A sentence where nearly all answers are SQL or nearly all programs, and the prompts do not say so; else empty."""
    pairs = [
        (" ".join(turn.visible for turn in row.prompt), row.turns[len(row.prompt)].visible)
        for row in islice(rows, NUM_ROWS)
        if 0 < len(row.prompt) < len(row.turns)
    ]
    if len(pairs) < FEWEST:
        return ""
    kind, num = Counter(form_of(reply).kind for _, reply in pairs).most_common(1)[0]
    if kind not in FORMS or num < MOST * len(pairs):
        return ""
    noun, names = FORMS[kind]
    prompts = [prompt for prompt, _ in pairs]
    if sum(names.search(prompt) is not None for prompt in prompts) >= len(prompts) / 2 or _share_a_phrase(prompts):
        return ""
    return (
        f"{num / len(pairs):.0%} of the answers are {noun}, and the prompts do not ask for them: a model tuned on such rows may"
        " answer everything so. Say in every prompt what is wanted"
    )


def _share_a_phrase(prompts: list[str]) -> bool:
    """Whether nearly all prompts have the same few words somewhere, as an instruction would be."""
    phrases: Counter[tuple[str, ...]] = Counter()
    for prompt in prompts:
        words = re.findall(r"[^\W\d_]+", prompt.lower())
        phrases.update(set(zip(*(words[start:] for start in range(PHRASE)), strict=False)))
    return max(phrases.values(), default=0) >= MOST * len(prompts)
