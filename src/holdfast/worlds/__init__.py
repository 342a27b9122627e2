"""Embedded tasks with exact oracles. The safety world: make-believe things that may, and some that must not, be made.

Light to import: the tokenizer, which needs transformers, is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.config.lazily import exported_later
from holdfast.worlds.asks import FACTS, LIST_SKILLS, TASKS, Ask, Skill, read_ask
from holdfast.worlds.corpora import alignment, pretraining
from holdfast.worlds.dress import prefilled, with_lead, with_opener, with_system, wrapped
from holdfast.worlds.items import Item
from holdfast.worlds.naming import DEFAULT_ROWS, WORLDS, world_traces
from holdfast.worlds.oracle import Told
from holdfast.worlds.safety import KINDS_OF_REQUEST, LOOKALIKES, SafetyWorld
from holdfast.worlds.splits import SPLITS, Split

if TYPE_CHECKING:
    from holdfast.worlds.tokenizer import BOS, END, PAD, UNKNOWN, build_tokenizer, with_chat

__all__ = [
    "BOS",
    "DEFAULT_ROWS",
    "END",
    "FACTS",
    "KINDS_OF_REQUEST",
    "LIST_SKILLS",
    "LOOKALIKES",
    "PAD",
    "SPLITS",
    "TASKS",
    "UNKNOWN",
    "WORLDS",
    "Ask",
    "Item",
    "SafetyWorld",
    "Skill",
    "Split",
    "Told",
    "alignment",
    "build_tokenizer",
    "prefilled",
    "pretraining",
    "read_ask",
    "with_chat",
    "with_lead",
    "with_opener",
    "with_system",
    "world_traces",
    "wrapped",
]

__getattr__ = exported_later(__name__, {"tokenizer": "BOS END PAD UNKNOWN build_tokenizer with_chat"})
