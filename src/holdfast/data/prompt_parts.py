"""The package's prompts, single and in pairs, in two parts: four fifths to learn from, a fifth to choose by.

Nothing is ever trained on the fifth: an alignment and a defence are both chosen with it.
"""

from __future__ import annotations

import hashlib

from holdfast.data.default_prompts import Kind, default_prompts
from holdfast.data.prompt_pairs import patterns


def package_prompts(kind: Kind) -> tuple[str, ...]:
    """All prompts of a kind, both parts."""
    return (*default_prompts(kind), *(text for pattern in patterns() for text in pattern.prompts(kind)))


def learned_part(kind: Kind) -> tuple[str, ...]:
    """The four fifths of a kind that are trained on."""
    return _part(kind, validation=False)


def validation_part(kind: Kind) -> tuple[str, ...]:
    """The fifth of a kind that settings are chosen by. Nothing is trained on it."""
    return _part(kind, validation=True)


def _part(kind: Kind, validation: bool) -> tuple[str, ...]:
    """A pattern goes to one side whole: its prompts are twins of each other."""
    single = [text for text in default_prompts(kind) if _is_validation(text) == validation]
    chosen = [pattern for pattern in patterns() if _is_validation(pattern.text) == validation]
    return (*single, *(text for pattern in chosen for text in pattern.prompts(kind)))


def _is_validation(text: str) -> bool:
    return hashlib.sha256(f"align/{text}".encode()).digest()[0] % 5 == 0
