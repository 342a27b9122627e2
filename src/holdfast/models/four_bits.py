"""4 bits by rounding to the nearest, as a compressed copy of a tuned model is asked. Pure torch: nothing is packed.

Every row of a linear layer's weights is cut into groups of 64 along its inputs. A group's weights are moved to the nearest of
16 evenly spaced levels from its least to its greatest weight, computed in float32, and kept in the model's own precision. That is
plain round-to-nearest, without calibration data and without double quantisation: worse than GPTQ or AWQ, and not NF4. Embedding,
head and norms stay as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

GROUP = 64
LEVELS = 16


def rounded_to_4_bits(weight: Tensor, group: int = GROUP) -> Tensor:
    """The weights [out, in] after quantising and de-quantising; a last group may be shorter."""
    return torch.cat([_rounded(part) for part in weight.float().split(group, dim=1)], dim=1).to(weight.dtype)


def _rounded(part: Tensor) -> Tensor:
    low, high = part.aminmax(dim=1, keepdim=True)
    step = (high - low) / (LEVELS - 1)
    level = torch.where(step > 0, (part - low) / step, 0.0).round()  # weights that are all the same stay as they are
    return low + level * step


@torch.no_grad()
def round_linear_layers(model: PreTrainedModel, group: int = GROUP) -> int:
    """Round every linear layer but the head, in place; returns how many."""
    head = model.get_output_embeddings()
    layers = [module for module in model.modules() if isinstance(module, nn.Linear) and module is not head]
    for layer in layers:
        layer.weight.copy_(rounded_to_4_bits(layer.weight, group))
    return len(layers)
