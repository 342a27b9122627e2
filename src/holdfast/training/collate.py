"""Rows -> one micro-batch: what the model is fed, and a table of the tokens that carry a target.

Everything that would make a GPU wait for the CPU (which tokens are targets, how many, which rows need the anchor) is
settled here, on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.records import Role
from holdfast.tokens import TokenBatch, TokenRow, answer_positions, pack, pad
from holdfast.tokens.batch import ModelInputs, Tensors

NUM_EARLY = 5  # tokens of an answer in which it is decided what it will be (MATH §9)
EARLY, LATE = 0, 1


class Counted(IntEnum):
    """The columns of ``MicroBatch.counts``."""

    TOKENS = 0
    ANSWERS = 1
    LATE = 2  # tokens after the first of an answer


@dataclass(frozen=True)
class StreamRow:
    """A tokenised row, its stream, its place in that stream, and its number in the run."""

    row: TokenRow
    stream: int
    place: int
    number: int


@dataclass(frozen=True)
class Targets(Tensors):
    """The tokens that carry a target, ordered by stream: every field has one entry per token."""

    index: Tensor  # where the hidden state that predicts it lies in the flattened batch
    ids: Tensor
    role: Tensor
    position: Tensor  # in its answer
    stream: Tensor

    @property
    def part(self) -> Tensor:
        """``EARLY`` for the first tokens of an answer, ``LATE`` for the others."""
        return (self.position >= NUM_EARLY).long()


@dataclass(frozen=True)
class AnchorPass(Tensors):
    """The rows that are compared with the anchor."""

    inputs: ModelInputs
    index: Tensor  # as in ``Targets``, for these rows
    rows: tuple[int, ...]  # their numbers in the run


class Span(NamedTuple):
    """The part of the table of targets that belongs to one stream."""

    stream: int
    start: int
    stop: int


@dataclass(frozen=True)
class MicroBatch(Tensors):
    """One pass of one process: what the policy reads, its targets, and what the anchor reads."""

    inputs: ModelInputs
    targets: Targets
    anchor: AnchorPass | None  # None: no row is compared with the anchor
    counts: Tensor  # [streams, 3]: target tokens, answers and late tokens of each stream
    spans: tuple[Span, ...]
    rows: tuple[int, ...]  # their numbers in the run


@dataclass(frozen=True)
class Collator:
    """Micro-batches of rows that lie stream by stream."""

    pad_id: int
    needs_anchor: tuple[bool, ...]  # per stream
    packing: bool = False
    float_masks: bool = False  # eager attention reads boolean 4-D masks wrongly
    always_anchor: bool = False  # the anchor is sharded: its pass needs all processes, with rows for it or without

    def __call__(self, rows: Sequence[StreamRow]) -> MicroBatch:
        """No rows at all become one token without a target, so that every process has a pass to make."""
        rows = sorted(rows, key=lambda row: row.stream)
        batch = self._together(rows)
        targets = target_table(batch, [row.stream for row in rows])
        counts = self._counts(targets, rows)
        return MicroBatch(
            inputs=batch.inputs,
            targets=targets,
            anchor=self._anchor_pass(rows, batch, targets),
            counts=counts,
            spans=_spans(counts),
            rows=tuple(row.number for row in rows),
        )

    def _counts(self, targets: Targets, rows: Sequence[StreamRow]) -> Tensor:
        answers = torch.tensor([row.stream for row in rows if row.row.num_targets], dtype=torch.long)
        late = targets.stream[targets.part == LATE]
        num_streams = len(self.needs_anchor)
        return torch.stack([stream.bincount(minlength=num_streams) for stream in (targets.stream, answers, late)], 1)

    def _anchor_pass(self, rows: Sequence[StreamRow], batch: TokenBatch, targets: Targets) -> AnchorPass | None:
        anchored = [row for row in rows if self.needs_anchor[row.stream]]
        if not anchored and not (self.always_anchor and any(self.needs_anchor)):
            return None
        if len(anchored) < len(rows):
            batch = self._together(anchored)
            targets = target_table(batch, [row.stream for row in anchored])
        return AnchorPass(batch.inputs, targets.index, tuple(row.number for row in anchored))

    def _together(self, rows: Sequence[StreamRow]) -> TokenBatch:
        token_rows = [row.row for row in rows] or [TokenRow([self.pad_id], [Role.PROMPT], [0])]
        if self.packing:
            return pack(token_rows, float_mask=self.float_masks)
        return pad(token_rows, self.pad_id, float_mask=self.float_masks)


def target_table(batch: TokenBatch, stream_of_row: Sequence[int]) -> Targets:
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
    return Targets(
        index=flat - 1,
        ids=batch.ids.flatten()[flat],
        role=batch.roles.flatten()[flat],
        position=answer_positions(batch.roles, batch.blanks).flatten()[flat],
        stream=streams,
    )


def _spans(counts: Tensor) -> tuple[Span, ...]:
    """The span of every stream that is present, in the order of the table."""
    spans, start = [], 0
    for stream, count in enumerate(counts[:, Counted.TOKENS].tolist()):
        if count:
            spans.append(Span(stream, start, start + count))
            start += count
    return tuple(spans)
