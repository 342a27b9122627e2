"""Samplers: conversations in, completions out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.config.lazily import exported_later
from holdfast.generation.dress import GREEDY, PLAIN, Dress, Sampling
from holdfast.generation.endpoint import EndpointSampler, is_endpoint
from holdfast.generation.prompts import Prompt, listed_prompts, turns_of
from holdfast.generation.undo_use import UndoUse, total, undo_use  # now: a module of that name would hide it later

if TYPE_CHECKING:
    from holdfast.generation.answers import UndoLimits
    from holdfast.generation.backtracking import UndoDecoder, UndoDecoding, generate_with_undo
    from holdfast.generation.conversations import stop_ids
    from holdfast.generation.prompted import begun_with, generate_answers
    from holdfast.generation.sample import continue_ids, generate
    from holdfast.generation.sampler import ModelSampler, Progress, Sampler
    from holdfast.generation.streaming import Delete, Event, Finished, Insert, stream_with_undo

__all__ = [
    "GREEDY",
    "PLAIN",
    "Delete",
    "Dress",
    "EndpointSampler",
    "Event",
    "Finished",
    "Insert",
    "ModelSampler",
    "Progress",
    "Prompt",
    "Sampler",
    "Sampling",
    "UndoDecoder",
    "UndoDecoding",
    "UndoLimits",
    "UndoUse",
    "begun_with",
    "continue_ids",
    "generate",
    "generate_answers",
    "generate_with_undo",
    "is_endpoint",
    "listed_prompts",
    "stop_ids",
    "stream_with_undo",
    "total",
    "turns_of",
    "undo_use",
]

_LATER = {
    "answers": "UndoLimits",
    "backtracking": "UndoDecoder UndoDecoding generate_with_undo",
    "conversations": "stop_ids",
    "prompted": "begun_with generate_answers",
    "sample": "continue_ids generate",
    "sampler": "ModelSampler Progress Sampler",
    "streaming": "Delete Event Finished Insert stream_with_undo",
}

# torch and transformers take seconds to import: a server in front of other servers has no need of them.
__getattr__ = exported_later(__name__, _LATER)
