"""Samplers: conversations in, completions out."""

from holdfast.generation.sample import Prompt, generate

__all__ = ["Prompt", "generate"]
