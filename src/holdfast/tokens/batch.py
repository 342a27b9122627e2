"""Tokenised rows, and the two ways to put them into one batch: padded and packed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self, overload

import torch
from torch import Tensor

from holdfast.records import Role
from holdfast.tokens.undo import additive_mask, hard_mask, stack_context

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
    blanks: tuple[int, ...] = ()  # indices of tokens that carry no text, before the first one of an answer that does

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def num_targets(self) -> int:
        """How many tokens are trained."""
        return len(self.roles) - self.roles.count(Role.PROMPT)

    def until(self, stop: int) -> TokenRow:
        """The first ``stop`` tokens."""
        return replace(
            self,
            ids=self.ids[:stop],
            roles=self.roles[:stop],
            positions=self.positions[:stop],
            blanks=tuple(index for index in self.blanks if index < stop),
        )

    @property
    def needs_mask(self) -> bool:
        """Whether attention is more than causal: without an undo, hard context and soft context are the same."""
        return self.context == "hard" and Role.UNDO in self.roles


@dataclass(frozen=True)
class Tensors:
    """Named tensors that go to a device together: accelerate calls ``to``, a DataLoader calls ``pin_memory``."""

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """A copy on another device."""
        return self._changed(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """A copy in pinned memory, from which a GPU copies while the host goes on."""
        return self._changed(Tensor.pin_memory)

    def _changed(self, change: Callable[[Tensor], Tensor]) -> Self:
        def changed(value: Any) -> Any:
            if isinstance(value, Tensors):
                return value._changed(change)
            return change(value) if isinstance(value, Tensor) else value

        return replace(self, **{field.name: changed(getattr(self, field.name)) for field in fields(self)})


@dataclass(frozen=True)
class ModelInputs(Tensors):
    """What a model reads. ids, positions: [B, T] int64.

    ``attention`` is [B, T] (padded), None (packed: transformers derives the block-diagonal mask from the position ids
    that restart), or [B, 1, T, T] (hard context).
    """

    ids: Tensor
    positions: Tensor
    attention: Tensor | None

    def model_inputs(self) -> dict[str, Any]:
        """Keyword arguments of a transformers model.

        The cache is off: with one, transformers ignores the restarts in the position ids of a packed batch, without a
        word, and its rows see each other.
        """
        inputs = {"input_ids": self.ids, "position_ids": self.positions, "use_cache": False}
        return inputs if self.attention is None else {**inputs, "attention_mask": self.attention}


@dataclass(frozen=True)
class TokenBatch(ModelInputs):
    """Rows as tensors: what a model reads, and what it does not see. Padding has role ``prompt`` and row -1."""

    roles: Tensor  # [B, T] int64, as is ``rows``
    rows: Tensor  # index, within this batch, of the row a token belongs to
    blanks: Tensor  # [B, T] bool: see TokenRow

    @property
    def inputs(self) -> ModelInputs:
        """What the model reads alone."""
        return ModelInputs(self.ids, self.positions, self.attention)


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
        blanks=lines([_is_blank(row) for row in rows], 0).bool(),
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
        blanks=_line([blank for row in rows for blank in _is_blank(row)]).bool(),
    )


@overload
def answer_positions(roles: Sequence[int], blanks: Collection[int] = ()) -> list[int]: ...
@overload
def answer_positions(roles: Tensor, blanks: Tensor | None = None) -> Tensor: ...
def answer_positions(
    roles: Sequence[int] | Tensor, blanks: Collection[int] | Tensor | None = None
) -> list[int] | Tensor:
    """Index of each token in its answer, restarting with every run of trained tokens; -1 for prompts.

    0 is the first token that carries text. ``blanks`` are those before it that do not, such as the lone space that
    Llama-2's tokenizer writes before a digit: they are 0 as well, so that a schedule by position begins with the text.
    Packed rows need nothing special: every row starts with a prompt token.
    """
    if not isinstance(roles, Tensor):
        is_blank = torch.zeros(len(roles), dtype=torch.bool)
        is_blank[list(blanks if blanks is not None else ())] = True
        positions: list[int] = answer_positions(torch.tensor(roles, dtype=torch.long), is_blank).tolist()
        return positions
    index = torch.arange(roles.shape[-1], device=roles.device).expand_as(roles)
    is_prompt = roles == Role.PROMPT
    is_before = is_prompt if blanks is None else is_prompt | torch.as_tensor(blanks)
    position = index - torch.where(is_before, index, -1).cummax(-1).values - 1
    return position if blanks is None else torch.where(is_prompt, position, position.clamp(min=0))


def _is_blank(row: TokenRow) -> list[int]:
    blank = [0] * len(row)
    for index in row.blanks:
        blank[index] = 1
    return blank


def _line(values: list[int]) -> Tensor:
    return torch.tensor([values], dtype=torch.long)


def _until(row: TokenRow) -> list[int]:
    return stack_context(row.roles).until if row.context == "hard" else [len(row)] * len(row)


def _mask(until: Tensor, float_mask: bool) -> Tensor:
    mask = hard_mask(until)
    return additive_mask(mask) if float_mask else mask
