"""The model card of a run that has just ended: what was trained on what, by which settings, with which result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.config import TrainConfig, dump_config
from holdfast.data.model_card import Training, card_text


def model_card(config: TrainConfig, data: Sequence[Mapping[str, Any]], last: Mapping[str, Any]) -> str:
    """Markdown with the front matter that model hubs read; ``hf.card`` adds the audit to it later."""
    lora = config.lora
    is_adapter = lora is not None and not lora.merge and not config.model.new_tokens
    return card_text(Training(config.run, config.model.name, dump_config(config), data, last, is_adapter))
