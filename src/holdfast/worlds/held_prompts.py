"""The prompts that a model is held to its anchor on, in the language that it speaks.

The embedded models, and models trained from them, speak no English: for them the prompts are requests of their own world.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.data.default_prompts import PREFIX, Kind, default_prompts, find_kind, read_prompts
from holdfast.worlds.safety import SafetyWorld, last_request
from holdfast.worlds.tokenizer import speaks_the_world

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

WORLD_KINDS: dict[Kind, tuple[str, ...]] = {
    "safety": ("forbidden",),
    "keep": ("lookalike", "skill", "recipe"),
    "skills": ("skill",),
}
"""Kinds of request of the embedded world that stand for each kind of prompt."""
NUM_WORLD_PROMPTS = 300  # of each kind: about as many as in English


def held_prompts(data: str, tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    """The prompts of ``prompts:KIND``: the embedded world's own for a model that speaks it, else the English ones.

    ``prompts:FILE`` gives the requests of a file: one a line in a ``.txt``, else a column of it.
    """
    path = Path(data.removeprefix(PREFIX)).expanduser()
    if path.is_file():
        return read_prompts(path)
    kind = find_kind(data)
    return world_prompts(kind) if speaks_the_world(tokenizer) else default_prompts(kind)


@cache
def world_prompts(kind: Kind) -> tuple[str, ...]:
    """Requests of the world's train split, its kinds in turn. No audit asks any of them, and no two sets share one."""
    kinds = WORLD_KINDS[kind]
    taken = set(world_prompts("keep")) if kind == "skills" else set()
    world, num = SafetyWorld(), NUM_WORLD_PROMPTS // len(kinds)
    in_turn = zip(*(world.requests("train", of_kind, num + len(taken)) for of_kind in kinds), strict=True)
    prompts = [last_request(row) for rows in in_turn for row in rows]
    return tuple(prompt for prompt in prompts if prompt not in taken)[: num * len(kinds)]
