"""What the studies of [000] share: traces of the embedded world, a model in float64, gradients of parts of a trace's loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from holdfast.config import ModelSettings
from holdfast.models import LoadedModel, add_tokens, load
from holdfast.tokens import UNDO_TOKEN
from holdfast_studies.undo.safety_gap_config import SafetyGapConfig, TraceSettings


def embedded(study: str, *, model: ModelSettings | None = None, **changes: Any) -> SafetyGapConfig:
    """Facts of the embedded world ("in the cellar ."), one wrong word in every answer, taken back."""
    config: dict[str, Any] = {
        "run": f"runs/papers/{study}",
        "title": study,
        "model": model or ModelSettings(name="tiny:aligned", device="cpu"),
        "train": "world:safety/train/place",
        "test": "world:safety/test/place",
        "num_train": 2000,
        "num_test": 100,
        "traces": TraceSettings(builder="perturb", errors=(1, 1), length=(1, 1), clean=0.0),
        "max_new_tokens": 12,
        "eval_batch": 128,
    }
    return SafetyGapConfig.model_validate({**config, **changes})


def in_float64(model: ModelSettings) -> LoadedModel:
    """The model in float64, untrained, with ``<UNDO>`` added."""
    loaded = load(model.name, dtype=model.dtype, device=model.device, attention=model.attention)
    add_tokens(loaded.model, loaded.tokenizer, (UNDO_TOKEN,))
    loaded.model.double()
    return loaded


def parameters_of(model: Any) -> list[Tensor]:
    """The parameters that a training would move."""
    return [weight for weight in model.parameters() if weight.requires_grad]


def flat_gradient(loss: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """The gradient of a loss as one vector. The graph is kept, so that further gradients can be taken."""
    parts = torch.autograd.grad(loss, list(parameters), retain_graph=True)
    return torch.cat([part.flatten() for part in parts])


def cosine(first: Tensor, second: Tensor) -> float:
    """The cosine of the angle between two vectors."""
    return float(first @ second / (first.norm() * second.norm()))
