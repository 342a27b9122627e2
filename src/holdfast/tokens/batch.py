"""Tokenised rows, and the two ways to put them into one batch: padded and packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

import torch
from torch import Tensor

from holdfast.records import Role
from holdfast.tokens.masks import additive_mask, hard_mask
from holdfast.tokens.undo import stack_context

Context = Literal["soft", "hard"]
"""What a token sees after an undo: everything written (soft), or only what is still on the stack (hard)."""


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One conversation as the model reads it. A token whose role is not ``prompt`` carries a target."""

    ids: list[int]
    roles: list[int]
    positions: list[int]  # position ids of the model
    context: Context = "soft"
    source: int = 0  # which of the traces given it came from

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def num_targets(self) -> int:
        """How many tokens are trained."""
        return len(self.roles) - self.roles.count(Role.PROMPT)

    @property
    def needs_mask(self) -> bool:
        """Whether attention is more than causal: without an undo, hard context and soft context are the same."""
        return self.context == "hard" and Role.UNDO in self.roles


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Rows as tensors. ids, roles, positions, rows: [B, T] int64; padding has role ``prompt`` and row -1.

    ``attention`` is [B, T] (padded), None (packed: transformers derives the block-diagonal mask from the position ids
    that restart), or [B, 1, T, T] (hard context).
    """

    ids: Tensor
    roles: Tensor
    positions: Tensor
    attention: Tensor | None
    rows: Tensor  # index, within this batch, of the row a token belongs to

    def to(self, device: torch.device | str) -> TokenBatch:
        """The same batch elsewhere."""
        attention = None if self.attention is None else self.attention.to(device)
        moved = {name: getattr(self, name).to(device) for name in ("ids", "roles", "positions", "rows")}
        return replace(self, **moved, attention=attention)

    def model_inputs(self) -> dict[str, Any]:
        """Keyword arguments of a transformers model.

        The cache is off: with one, transformers ignores the restarts in the position ids of a packed batch, without a
        word, and its rows see each other.
        """
        inputs = {"input_ids": self.ids, "position_ids": self.positions, "use_cache": False}
        return inputs if self.attention is None else {**inputs, "attention_mask": self.attention}


def pad(rows: Sequence[TokenRow], pad_id: int, *, float_mask: bool = False) -> TokenBatch:
    """One row per line, padded on the right. ``float_mask``: for eager attention, which reads boolean masks wrongly."""
    width = max(len(row) for row in rows)

    def lines(values: Sequence[Sequence[int]], fill: int) -> Tensor:
        return torch.tensor([[*line, *[fill] * (width - len(line))] for line in values], dtype=torch.long)

    index = lines([[i] * len(row) for i, row in enumerate(rows)], -1)
    attention = (index >= 0).long()
    if any(row.needs_mask for row in rows):
        attention = _mask(lines([_until(row) for row in rows], width), float_mask)
    return TokenBatch(
        ids=lines([row.ids for row in rows], pad_id),
        roles=lines([row.roles for row in rows], Role.PROMPT),
        positions=lines([row.positions for row in rows], 0),
        attention=attention,
        rows=index,
    )


def pack(rows: Sequence[TokenRow], *, float_mask: bool = False) -> TokenBatch:
    """All rows on one line, one after the other, blind to each other; positions restart with every row."""
    index = _line([i for i, row in enumerate(rows) for _ in row.ids])
    attention = None
    if any(row.needs_mask for row in rows):
        starts = [0]
        for row in rows:
            starts.append(starts[-1] + len(row))
        until = [start + end for start, row in zip(starts, rows, strict=False) for end in _until(row)]
        attention = _mask(_line(until), float_mask)
    return TokenBatch(
        ids=_line([token for row in rows for token in row.ids]),
        roles=_line([role for row in rows for role in row.roles]),
        positions=_line([position for row in rows for position in row.positions]),
        attention=attention,
        rows=index,
    )


@overload
def answer_positions(roles: Sequence[int]) -> list[int]: ...
@overload
def answer_positions(roles: Tensor) -> Tensor: ...
def answer_positions(roles: Sequence[int] | Tensor) -> list[int] | Tensor:
    """Index of each token in its answer: 0 for the first, restarting with every run of trained tokens; -1 for prompts.

    Packed rows need nothing special: every row starts with a prompt token.
    """
    if not isinstance(roles, Tensor):
        positions: list[int] = answer_positions(torch.tensor(roles, dtype=torch.long)).tolist()
        return positions
    index = torch.arange(roles.shape[-1], device=roles.device).expand_as(roles)
    last_prompt = torch.where(roles == Role.PROMPT, index, -1).cummax(-1).values
    return index - last_prompt - 1


def _line(values: list[int]) -> Tensor:
    return torch.tensor([values], dtype=torch.long)


def _until(row: TokenRow) -> list[int]:
    return stack_context(row.roles).until if row.context == "hard" else [len(row)] * len(row)


def _mask(until: Tensor, float_mask: bool) -> Tensor:
    mask = hard_mask(until)
    return additive_mask(mask) if float_mask else mask
