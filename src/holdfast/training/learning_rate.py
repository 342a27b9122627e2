"""``training.lr: auto``: a learning rate by the model's width, so that one recipe fits models of any size.

Wide models want small steps. The rules of thumb go through rates that are known to work here and elsewhere: 2e-5 (all weights)
and 2e-4 (LoRA) for 7B models, 4,096 wide; 1.4e-4 and 1e-3 for SmolLM2-135M, 576 wide; 1e-3 and 5e-3 for tiny:*, 64 wide.
They are a start, not an optimum: try half and double.
"""

from __future__ import annotations

from collections.abc import Callable

from transformers import PreTrainedModel

from holdfast.config import InputError, TrainConfig

WIDTH = 4096  # of a 7B model
FULL, FULL_POWER = 2e-5, 1.0
LORA, LORA_POWER = 2e-4, 0.77


def choose_learning_rate(config: TrainConfig, model: PreTrainedModel, say: Callable[[str], None]) -> float:
    """The rate that was asked for, or one by the model's width, which is said aloud."""
    if config.training.lr != "auto":
        return config.training.lr
    width = getattr(model.config.get_text_config(), "hidden_size", None)
    if not isinstance(width, int):
        raise InputError(
            "field 'training.lr': auto goes by the model's width, which its config does not say; give a number"
        )
    lr = learning_rate(width, lora=config.lora is not None)
    say(f"training.lr: {lr:g}, chosen for a model {width} wide{' with LoRA' if config.lora else ''}")
    return lr


def learning_rate(width: int, *, lora: bool) -> float:
    """By the rule of thumb, to two digits."""
    rate, power = (LORA, LORA_POWER) if lora else (FULL, FULL_POWER)
    return float(f"{rate * (WIDTH / width) ** power:.1e}")
