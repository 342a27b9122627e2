"""Rows -> one micro-batch: what the model is fed, and a table of the tokens that carry a target.

Everything that would make a GPU wait for the CPU (which tokens are targets, how many, which rows need the anchor) is
settled here, on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast.records import Role
from holdfast.tokens import TokenBatch, TokenRow, answer_positions, pack, pad


@dataclass(frozen=True)
class StreamRow:
    """A tokenised row, its stream, its place in that stream, and its number in the run."""

    row: TokenRow
    stream: int
    place: int
    number: int


@dataclass(frozen=True)
class Collator:
    """Micro-batches of rows that lie stream by stream."""

    pad_id: int
    needs_anchor: tuple[bool, ...]  # per stream
    packing: bool = False
    float_masks: bool = False  # eager attention reads boolean 4-D masks wrongly
    always_anchor: bool = False  # the anchor is sharded: its pass needs all processes, with rows for it or without

    def __call__(self, rows: Sequence[StreamRow]) -> dict[str, Any]:
        """Model inputs, the target table, and the inputs of the anchor's pass (rows that need it only).

        No rows at all become one token without a target, so that every process has a pass to make.
        """
        rows = sorted(rows, key=lambda row: row.stream)
        batch = self._together(rows)
        targets = target_table(batch, [row.stream for row in rows])
        anchored = [row for row in rows if self.needs_anchor[row.stream]]
        anchor = None
        if anchored or (self.always_anchor and any(self.needs_anchor)):
            anchor_batch = batch if len(anchored) == len(rows) else self._together(anchored)
            index = target_table(anchor_batch, [row.stream for row in anchored])["index"]
            anchor = {**anchor_batch.model_inputs(), "index": index}
        counts = torch.bincount(targets["stream"], minlength=len(self.needs_anchor))
        return {
            **batch.model_inputs(),
            "targets": targets,
            "anchor": anchor,
            "counts": counts,
            "spans": _spans(counts),
            "rows": tuple(row.number for row in rows),
            "anchored_rows": tuple(row.number for row in anchored),
        }

    def _together(self, rows: Sequence[StreamRow]) -> TokenBatch:
        token_rows = [row.row for row in rows] or [TokenRow([self.pad_id], [Role.PROMPT], [0])]
        if self.packing:
            return pack(token_rows, float_mask=self.float_masks)
        return pad(token_rows, self.pad_id, float_mask=self.float_masks)


def target_table(batch: TokenBatch, stream_of_row: Sequence[int]) -> dict[str, Tensor]:
    """Every token that carries a target, ordered by stream: where its hidden state lies, its id, role, position, stream.

    A token is predicted from the state before it, so ``index`` points one to the left in the flattened batch.
    """
    width = batch.ids.shape[1]
    is_target = batch.roles != Role.PROMPT
    is_target[:, 0] = False
    flat = is_target.flatten().nonzero().squeeze(1)
    streams = torch.tensor(stream_of_row, dtype=torch.long)[batch.rows.flatten()[flat]]
    order = torch.argsort(streams, stable=True)
    flat, streams = flat[order], streams[order]
    assert bool((flat % width > 0).all())
    return {
        "index": flat - 1,
        "ids": batch.ids.flatten()[flat],
        "role": batch.roles.flatten()[flat],
        "position": answer_positions(batch.roles, batch.blanks).flatten()[flat],
        "stream": streams,
    }


def _spans(counts: Tensor) -> tuple[tuple[int, int, int], ...]:
    """(stream, start, stop) of every stream present, in the order of the table."""
    spans, start = [], 0
    for stream, count in enumerate(counts.tolist()):
        if count:
            spans.append((stream, start, start + count))
            start += count
    return tuple(spans)
