"""How far a model reads: the positions that it has."""

from __future__ import annotations

import sys

from transformers import PreTrainedConfig


def num_positions(config: PreTrainedConfig) -> int:
    """How many tokens a model can read and write in all. What it writes past its last position is worthless."""
    return getattr(config.get_text_config(), "max_position_embeddings", None) or sys.maxsize


def num_learned_positions(config: PreTrainedConfig) -> int:
    """How many tokens a model with learned positions (GPT-2) can take; one more crashes. Rotary positions have no limit."""
    is_rotary = getattr(config.get_text_config(), "rope_parameters", None) is not None
    return sys.maxsize if is_rotary else num_positions(config)
