"""How far a model reads: the positions that it has."""

from __future__ import annotations

import sys

from transformers import PreTrainedConfig


def num_positions(config: PreTrainedConfig) -> int:
    """How many tokens a model reads and writes in all. Past its last position it writes anything at all."""
    return getattr(config.get_text_config(), "max_position_embeddings", None) or sys.maxsize


def num_learned_positions(config: PreTrainedConfig) -> int:
    """The same where one position more is an index error, on a GPU a crash (GPT-2); rotary ones go on without an end."""
    is_rotary = getattr(config.get_text_config(), "rope_parameters", None) is not None
    return sys.maxsize if is_rotary else num_positions(config)
