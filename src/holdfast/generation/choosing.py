"""The next token of every row: the likeliest, or drawn."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def choose(
    logits: Tensor,
    barred: Sequence[Sequence[int]],
    *,
    temperature: float,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> list[int]:
    """logits [B, V]; ``barred``: the tokens that each row must not take. Temperature 0 is greedy."""
    if any(barred):
        logits = logits.clone()
        for row, tokens in enumerate(barred):
            logits[row, list(tokens)] = -torch.inf
    if temperature == 0:
        likeliest: list[int] = logits.argmax(-1).tolist()
        return likeliest
    probabilities = torch.softmax(logits.float() / temperature, -1)
    if top_p < 1:
        ordered, index = probabilities.sort(-1, descending=True)
        outside = ordered.cumsum(-1) - ordered >= top_p  # the first token is always inside
        probabilities = probabilities.scatter(-1, index, ordered.masked_fill(outside, 0.0))
    drawn: list[int] = torch.multinomial(probabilities, 1, generator=generator).squeeze(1).tolist()
    return drawn
