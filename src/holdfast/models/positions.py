"""How far a model reads: the positions that it has."""

from __future__ import annotations

import sys
from typing import Any


def num_positions(model: Any) -> int:
    """How many tokens a model reads and writes in all. Past its last position it writes anything at all."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None) or sys.maxsize


def num_learned_positions(model: Any) -> int:
    """The same where one position more is an index error, on a GPU a crash (GPT-2); rotary ones go on without an end."""
    is_rotary = getattr(model.config.get_text_config(), "rope_parameters", None) is not None
    return sys.maxsize if is_rotary else num_positions(model)
