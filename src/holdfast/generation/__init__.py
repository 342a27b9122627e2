"""Samplers: conversations in, completions out."""

from holdfast.generation.answers import UndoLimits
from holdfast.generation.backtracking import UndoDecoder, UndoDecoding, generate_with_undo
from holdfast.generation.conversations import turns_of
from holdfast.generation.dress import GREEDY, PLAIN, Dress, Sampling
from holdfast.generation.endpoint import EndpointSampler, LikeliestFirst, is_endpoint
from holdfast.generation.prompted import begun_with, generate_answers
from holdfast.generation.sample import Prompt, generate
from holdfast.generation.sampler import ModelSampler, Progress, Sampler
from holdfast.generation.streaming import Delete, Event, Finished, Insert, stream_with_undo
from holdfast.generation.undo_use import UndoUse, total, undo_use

__all__ = [
    "GREEDY",
    "PLAIN",
    "Delete",
    "Dress",
    "EndpointSampler",
    "Event",
    "Finished",
    "Insert",
    "LikeliestFirst",
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
    "generate",
    "generate_answers",
    "generate_with_undo",
    "is_endpoint",
    "stream_with_undo",
    "total",
    "turns_of",
    "undo_use",
]
