"""Prompts that come with the package, so that a model can be held to its anchor without data of one's own.

Requests only. ``safety``: plain requests of the kinds that public benchmarks name by category, without any detail that
would help. ``keep``: harmless look-alikes of such requests (the same words, another meaning), and plain ones. Written for
holdfast; no benchmark was copied, and none that measures over-refusal was looked at. Who answers them is the anchor itself,
at run time: see ``holdfast.training.anchor_answers``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal, cast

from holdfast.config import InputError, did_you_mean

PREFIX = "prompts:"
KINDS = ("safety", "keep")
Kind = Literal["safety", "keep"]
FOLDER = Path(__file__).parent / "prompts"


@cache
def default_prompts(kind: Kind) -> tuple[str, ...]:
    """All prompts of a kind, in file order."""
    return tuple(prompt for prompts in prompts_by_category(kind).values() for prompt in prompts)


@cache
def prompts_by_category(kind: Kind) -> dict[str, tuple[str, ...]]:
    """As the file has them: a heading, then its prompts."""
    found: dict[str, tuple[str, ...]] = {}
    category = ""
    for line in (FOLDER / f"{kind}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            category = line.removeprefix("# ")
        elif line.strip():
            found[category] = (*found.get(category, ()), line.strip())
    return found


def find_kind(name: str) -> Kind:
    """From ``prompts:safety``; a clear line for anything else."""
    kind = name.removeprefix(PREFIX)
    if kind in KINDS:
        return cast(Kind, kind)
    known = "the prompts that come with the package are prompts:safety and prompts:keep"
    raise InputError(f"'{name}': {known}{did_you_mean(kind, KINDS)}")
