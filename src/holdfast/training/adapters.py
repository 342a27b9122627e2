"""LoRA and QLoRA through peft, with the rows of new tokens trained in the embedding and in the head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training

from holdfast.config import InputError
from holdfast.config.training import LoraSettings


def with_adapters(model: Any, settings: LoraSettings, new_token_ids: Sequence[int]) -> Any:
    """The model wrapped by peft. Naming only the embedding would leave the head's row untrained on an untied model."""
    if settings.quantize:
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.r,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=settings.targets if isinstance(settings.targets, str) else list(settings.targets),
        trainable_token_indices=_token_modules(model, new_token_ids) or None,
    )
    try:
        return get_peft_model(model, config)
    except ValueError as error:  # peft's own words name the targets
        raise InputError(f"field 'lora': {error}") from None


def _token_modules(model: Any, new_token_ids: Sequence[int]) -> dict[str, list[int]]:
    if not new_token_ids:
        return {}
    modules = [model.get_input_embeddings()]
    if not model.config.tie_word_embeddings:  # a tied head follows its embedding
        modules.append(model.get_output_embeddings())
    names = {id(module): name.rsplit(".", 1)[-1] for name, module in model.named_modules()}
    return {names[id(module)]: list(new_token_ids) for module in modules}
