"""Policy and anchor are loaded alike: same dtype, device, quantisation and new tokens."""

from __future__ import annotations

from accelerate import PartialState

from holdfast.config import TrainConfig
from holdfast.models import LoadedModel, add_tokens, load


def load_model(config: TrainConfig, name: str) -> tuple[LoadedModel, list[int]]:
    """A model under the config's settings, and the ids of its new tokens. Each process takes its own device."""
    settings = config.model
    processes = PartialState()
    device = str(processes.device) if processes.num_processes > 1 else settings.device
    loaded = load(
        name,
        dtype=settings.dtype,
        device=device,
        attention=settings.attention,
        allow_pickle=settings.allow_pickle,
        quantize=config.lora.quantize if config.lora else None,
    )
    new_ids: list[int] = []
    if settings.new_tokens:
        new_ids = add_tokens(loaded.model, loaded.tokenizer, settings.new_tokens, init=settings.new_token_init)
    return loaded, new_ids
