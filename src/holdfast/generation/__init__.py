"""Samplers: conversations in, completions out."""

from holdfast.generation.answers import UndoLimits
from holdfast.generation.backtracking import UndoDecoder, UndoDecoding, generate_with_undo
from holdfast.generation.endpoint import EndpointSampler, is_endpoint
from holdfast.generation.sample import Prompt, generate
from holdfast.generation.sampler import ModelSampler, Progress, Sampler
from holdfast.generation.streaming import Delete, Event, Finished, Insert, stream_with_undo

__all__ = [
    "Delete",
    "EndpointSampler",
    "Event",
    "Finished",
    "Insert",
    "ModelSampler",
    "Progress",
    "Prompt",
    "Sampler",
    "UndoDecoder",
    "UndoDecoding",
    "UndoLimits",
    "generate",
    "generate_with_undo",
    "is_endpoint",
    "stream_with_undo",
]
