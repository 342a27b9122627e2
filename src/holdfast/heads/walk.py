"""Logits a chunk of tokens at a time, never more than one chunk of them alive."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holdfast.heads.anchor import Reference
from holdfast.heads.choose import chunk_class
from holdfast.heads.logit_chunk import LogitChunk
from holdfast.heads.sources import HeadLogits, Source, anchor_source
from holdfast.heads.stats import TokenStats
from holdfast.heads.want import Want

if TYPE_CHECKING:
    from holdfast.heads.triton_chunk import TritonChunk

CHUNK_BYTES = {"cpu": 64 * 2**20}
CHUNK_BYTES_ELSEWHERE = 640 * 2**20
"""Logits of one model in a chunk. All arrays of a chunk together take this once for sft, two or three times with an
anchor; plain torch on a GPU once more.

On a CPU fresh pages cost as much as arithmetic; on a GPU a product of fewer than about 1,000 rows is slow.
"""
WIDENING = 3
"""Times as large on a CPU under a half-precision head: every chunk widens the head anew, at the cost of some 100 tokens."""


@dataclass(frozen=True, slots=True)
class Walk:
    """The way through some tokens, chunk by chunk."""

    reference: Reference | None
    targets: Tensor
    want: Want
    chunk_tokens: int | None
    num_vocab: int | None
    backend: str
    start: int = 0  # first row of the policy's; reference and targets begin at it

    def over(self, policy: Source) -> Iterator[tuple[slice, LogitChunk | TritonChunk, TokenStats]]:
        """(rows, the chunk, its statistics) of every chunk."""
        num_rows, want = len(self.targets), self.want
        if num_rows == 0:
            return
        anchor = anchor_source(self.reference, policy, self.num_vocab) if want.live else None
        cache = None if self.reference is None or self.reference.live else self.reference
        size = chunk_size(num_rows, policy, self.chunk_tokens)
        make = chunk_class(self.backend, policy.device, want)
        chunk = make(want, size, policy.num_vocab, policy.dtype, policy.device)
        if isinstance(anchor, HeadLogits) and self._shares_head() and chunk.take_difference():
            assert isinstance(policy, HeadLogits)
            own = policy.hidden[self.start : self.start + num_rows]
            anchor = HeadLogits(own - anchor.hidden, policy.weight)
        for first in range(0, num_rows, size):
            last = min(first + size, num_rows)
            chunk.resize(last - first)
            policy.fill(chunk.map("a"), slice(self.start + first, self.start + last))
            if anchor is not None:
                anchor.fill(chunk.map("b"), slice(first, last))
            cached = None if cache is None else cache.rows(first, last)
            yield slice(first, last), chunk, chunk.measure(self.targets[first:last], cached)

    def _shares_head(self) -> bool:
        return self.reference is not None and self.reference.weight is None

    def joined(self, parts: Sequence[TokenStats], policy: Source) -> TokenStats:
        """The statistics of all chunks together, of which there may be none."""
        if parts:
            return TokenStats.cat(parts)
        nothing = torch.zeros(0, dtype=policy.dtype, device=policy.device)
        stats = {name: nothing.long() if name == "top_ref" else nothing.clone() for name in self.want.stats}
        return TokenStats(logp=nothing, top=nothing.long(), **stats)


def chunk_size(num_rows: int, policy: Source, chunk_tokens: int | None) -> int:
    """Tokens of a chunk: as asked, or as the byte budget allows, evened out so that the last one is no stub."""
    if chunk_tokens is None:
        budget = CHUNK_BYTES.get(policy.device.type, CHUNK_BYTES_ELSEWHERE)
        if policy.device.type == "cpu" and policy.made_of is not policy.dtype:
            budget *= WIDENING
        chunk_tokens = max(1, budget // (policy.num_vocab * policy.dtype.itemsize))
        if policy.device.type != "cpu":
            chunk_tokens = 2 ** int(math.log2(chunk_tokens))  # whole tiles of a product
    assert chunk_tokens >= 1
    num_chunks = -(-num_rows // chunk_tokens)
    return -(-num_rows // num_chunks)
