"""The key/value cache of a batch whose rows take back different amounts: append-only slots, dead ones masked.

Every step appends one slot to all rows, whatever each of them does. In hard context (MATH §4) an undo kills the slot of the
token it takes back, sees what is left plus itself, and is then dead too; positions are stack depths. Cropping the cache
instead would be possible for whole batches only, and differs between versions of transformers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from holdfast.config import InputError
from holdfast.generation.reading import next_logits, padded_left, positions_of
from holdfast.tokens import Context, additive_mask

WASTE = 64  # the cache is compacted when more slots than this, and than are alive, are dead in every row


class SlotCache:
    """``start`` reads the prompts, ``feed`` one token per row; both return the logits of the next token, [B, V]."""

    def __init__(self, model: Any, *, context: Context = "soft") -> None:
        self.model, self.hard = model, context == "hard"
        self.float_mask = model.config._attn_implementation == "eager"  # it reads boolean masks wrongly
        self.cache = DynamicCache(config=model.config)
        self.used = 0

    @torch.inference_mode()
    def start(self, prompts: Sequence[Sequence[int]], pad_id: int) -> Tensor:
        """Read the prompts, padded on the left. Nothing of them can be taken back."""
        ids, given = padded_left(prompts, pad_id, self.model.device)
        width = ids.shape[1]
        self.padded = not bool(given.all())
        self.alive = torch.zeros(len(prompts), 2 * width + 256, dtype=torch.bool, device=ids.device)
        self.alive[:, :width] = given
        self.lengths = [len(row) for row in prompts]
        self.next_position = list(self.lengths)
        self.stacks: list[list[int]] = [[] for _ in prompts]  # slots of the answer's visible tokens
        self.used = width
        return next_logits(self.model, ids, given.long(), positions_of(given), self.cache)

    @torch.inference_mode()
    def feed(self, tokens: Sequence[int], undo: Sequence[bool], done: Sequence[bool]) -> Tensor:
        """One token per row. ``undo``: the token takes back the one before it; ``done``: the row has ended, it is padding."""
        self._make_room()
        slot, rows = self.used, range(len(tokens))
        self.used += 1
        self.alive[:, slot] = True
        positions = list(self.next_position)
        leaving = [row for row in rows if done[row]]
        if self.hard:
            undone = [row for row in rows if undo[row] and not done[row]]
            popped = [(row, self.stacks[row].pop()) for row in undone if self.stacks[row]]
            if popped:
                self.alive[[row for row, _ in popped], [old for _, old in popped]] = False
            for row, _ in popped:
                positions[row] -= 1
            leaving += undone
        gone = set(leaving)
        for row in rows:
            if row not in gone:
                self.stacks[row].append(slot)
            self.next_position[row] = positions[row] + (row not in gone)
        ids = torch.tensor(tokens, device=self.alive.device)[:, None]
        fed_at = torch.tensor(positions, device=self.alive.device)[:, None]
        logits = next_logits(self.model, ids, self._mask(), fed_at, self.cache)
        if leaving:
            self.alive[leaving, slot] = False
        return logits

    def _mask(self) -> Tensor | None:
        """Soft context: transformers' own 2-D mask, or none; it knows more kinds of attention. Hard: our 4-D mask."""
        if not self.hard:
            return self.alive[:, : self.used].long() if self.padded else None
        mask = self.alive[:, None, None, : self.used]
        return additive_mask(mask) if self.float_mask else mask

    def _make_room(self) -> None:
        most = max(self._num_alive())
        if self.used - most > max(WASTE, most):
            self._compact(most)
        if self.used == self.alive.shape[1]:
            self.alive = torch.cat([self.alive, torch.zeros_like(self.alive)], dim=1)

    def _num_alive(self) -> list[int]:
        return [length + len(stack) for length, stack in zip(self.lengths, self.stacks, strict=True)]

    def _compact(self, most: int) -> None:
        """Move every row's living slots to the front, in order. Keys carry their positions, so nothing is computed anew."""
        alive = self.alive[:, : self.used]
        index = torch.argsort((~alive).long(), dim=1, stable=True)[:, :most]
        layers: list[Any] = self.cache.layers
        for layer in layers:
            where = index[:, None, :, None]
            layer.keys = layer.keys.gather(2, where.expand(-1, layer.keys.shape[1], -1, layer.keys.shape[3]))
            layer.values = layer.values.gather(2, where.expand(-1, layer.values.shape[1], -1, layer.values.shape[3]))
        ranks = (alive.long().cumsum(1) - 1).tolist()
        self.stacks = [[rank[slot] for slot in stack] for rank, stack in zip(ranks, self.stacks, strict=True)]
        self.alive[:] = False
        for row, num in enumerate(self._num_alive()):
            self.alive[row, :num] = True
        self.used, self.padded = most, True


def check_context(model: Any, context: Context, longest: int) -> None:
    """Raise ``InputError`` for a model that cannot have hard context.

    Its mask is our own: flash attention takes none, and it would replace a model's sliding window.
    """
    if context == "soft":
        return
    attention = model.config._attn_implementation
    if attention not in ("sdpa", "eager"):
        raise InputError(f"context: hard needs attention sdpa or eager; {attention} takes no mask of ours")
    window = getattr(model.config, "sliding_window", None)
    if window and longest > window:
        raise InputError(f"context: hard on {longest} tokens would lose this model's sliding window of {window}")
