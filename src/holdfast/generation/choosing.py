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
        likely, index = _nucleus(probabilities, top_p)
        probabilities = probabilities.scatter(-1, index, likely)
    drawn: list[int] = torch.multinomial(probabilities, 1, generator=generator).squeeze(1).tolist()
    return drawn


def draw(logits: Tensor, uniform: Tensor, *, temperature: float, top_p: float = 1.0) -> Tensor:
    """Choose as ``choose`` does, but on the device, where no value is looked at.

    logits [B, V], ``uniform`` [B, 1] from [0, 1) -> [B, 1]
    """
    if temperature == 0:
        return logits.argmax(-1, keepdim=True)
    probabilities, index = torch.softmax(logits.float() / temperature, -1), None
    if top_p < 1:
        probabilities, index = _nucleus(probabilities, top_p)
    # In float64, so that rounding cannot carry the draw past the last token that has any probability.
    reached = probabilities.cumsum(-1, dtype=torch.float64)
    column = torch.searchsorted(reached, uniform.double() * reached[:, -1:], right=True)
    return column if index is None else index.gather(-1, column)


def _nucleus(probabilities: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """The likeliest tokens first, with 0 for those behind the first that together reach ``top_p``; and which they are."""
    ordered, index = probabilities.sort(-1, descending=True)
    outside = ordered.cumsum(-1) - ordered >= top_p  # the first token is always inside
    return ordered.masked_fill(outside, 0.0), index
