"""The undo stack of MATH §4: its token, what is left after every ``<UNDO>``, and what each token sees in hard context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from holdfast.records import Role

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

UNDO_TOKEN = "<UNDO>"
"""Takes back the token before it (MATH §4)."""


def find_undo_id(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The id of the undo token, or None where the vocabulary lacks it (an unknown-token id does not count)."""
    number = tokenizer.convert_tokens_to_ids(UNDO_TOKEN)
    return number if isinstance(number, int) and tokenizer.convert_ids_to_tokens(number) == UNDO_TOKEN else None


def apply_undo(ids: Iterable[int] | Tensor, undo_id: int) -> list[int]:
    """The ids a reader sees: ``x y z U U w`` -> ``x w``. An undo on an empty stack does nothing."""
    stack: list[int] = []
    for token in ids.tolist() if isinstance(ids, Tensor) else ids:
        if token != undo_id:
            stack.append(token)
        elif stack:
            stack.pop()
    return stack


class StackContext(NamedTuple):
    """Hard context of one row. Token k is seen by itself and by every later token before index ``until[k]``."""

    positions: list[int]  # stack depth at which a token is written
    until: list[int]

    def attends(self, token: int) -> list[int]:
        """The indices that a token attends to, in order: the stack when it is written, and itself."""
        return [k for k in range(token + 1) if token < self.until[k]]


def stack_context(roles: Sequence[int]) -> StackContext:
    """Positions and lifetimes of a row in hard context (MATH §4).

    Only tokens with role ``undo`` pop. One sees the stack after its pop plus itself, at position = depth, and is itself
    never on the stack. It cannot reach below the answer it stands in: a prompt token closes everything before it.
    """
    positions: list[int] = []
    until = [len(roles)] * len(roles)
    stack: list[int] = []
    floor = 0  # depth at which the current answer starts
    for index, role in enumerate(roles):
        if role == Role.UNDO:
            if len(stack) > floor:
                until[stack.pop()] = index
            positions.append(len(stack))
            until[index] = index + 1
            continue
        positions.append(len(stack))
        stack.append(index)
        if role == Role.PROMPT:
            floor = len(stack)
    return StackContext(positions, until)


def hard_mask(until: Tensor) -> Tensor:
    """Boolean [B, 1, T, T]: query q sees key k when k <= q < until[k]. Right for sdpa only.

    ``until`` [B, T] is that of ``stack_context``, counted along T: no token outlives its own row, so packed rows are
    blind to each other. Padding lives on and sees padding: a query without any key would be NaN.
    """
    index = torch.arange(until.shape[1], device=until.device)
    query, key = index[:, None], index[None, :]
    return ((key <= query) & (query < until[:, None, :])).unsqueeze(1)


def additive_mask(mask: Tensor) -> Tensor:
    """The same mask as numbers for eager attention, which adds it to the scores (a boolean one would add 0 and 1).

    float32 serves every model dtype: eager attention takes its softmax in float32 anyway.
    """
    return torch.zeros(mask.shape, dtype=torch.float32, device=mask.device).masked_fill_(
        ~mask, torch.finfo(torch.float32).min
    )
