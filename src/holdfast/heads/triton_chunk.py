"""A chunk of logits measured and differentiated by the Triton kernels: ``LogitChunk`` for a GPU.

It holds the policy's and the anchor's logits and nothing else; the gradient goes where the next product wants it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import triton
from torch import Tensor

from holdfast.heads.anchor import Reference
from holdfast.heads.sources import aligned
from holdfast.heads.stats import TokenStats
from holdfast.heads.triton_kernels import FOUND, differentiate_rows, measure_rows
from holdfast.heads.want import Want

MEASURE = {"BLOCK": 2048, "num_warps": 16}
DIFFERENTIATE = {"BLOCK": 4096, "TILES": 2, "num_warps": 8}
"""Launch settings: the fastest of those that ``python -m benchmarks.head_gpu --tune`` tries, on an H200, for all three of
its vocabularies. There they move 3.6-4.1 TB/s where a plain copy moves 4.3."""

READ = ("logp", "kl", "kl_rev", "entropy", "delta")  # the slopes a loss may have


class TritonChunk:
    """Arrays for one chunk at a time, kept from chunk to chunk."""

    def __init__(self, want: Want, rows: int, num_vocab: int, dtype: torch.dtype, device: torch.device) -> None:
        self.want, self._size, self._num_vocab = want, rows, num_vocab
        stride = aligned(num_vocab)
        names = ("a", "b") if want.live else ("a",)
        self._kept = {name: torch.empty(rows, stride, dtype=dtype, device=device)[:, :num_vocab] for name in names}
        self._used = dict(self._kept)
        self._difference = False

    def resize(self, rows: int) -> None:
        """Use the first ``rows`` rows from now on."""
        if rows != self._size:
            self._size, self._used = rows, {name: kept[:rows] for name, kept in self._kept.items()}

    def map(self, name: str) -> Tensor:
        """An array of the chunk. ``a`` and ``b`` are to be filled with logits before ``measure``."""
        return self._used[name]

    def take_difference(self) -> bool:
        """Asks for a - b in ``b`` where both models share a head: its product is exact where a - b would cancel.

        Not in float64, whose tests want no Taylor series.
        """
        self._difference = self._kept["a"].dtype is torch.float32
        return self._difference

    def measure(self, targets: Tensor, cached: Reference | None) -> TokenStats:
        """The statistics; afterwards ``gradient`` may be called once. ``cached``: logp and top of the anchor."""
        want, a = self.want, self.map("a")
        num_rows = self._size
        measured = torch.empty(len(FOUND), num_rows, dtype=a.dtype, device=a.device)
        tops = torch.empty(2, num_rows, dtype=torch.int64, device=a.device)
        self._targets, self._measured = targets.contiguous(), measured
        self._top, self._top_ref = tops.unbind()
        if cached is not None and cached.top is not None:
            self._top_ref = cached.top.long().contiguous()
        measure_rows[(num_rows,)](
            a,
            self._b(),
            self._targets,
            self._top_ref,
            measured,
            tops,
            num_rows,
            self._num_vocab,
            a.stride(0),
            LIVE=want.live,
            DIFFERENCE=self._difference,
            WANT_KL="kl" in want.stats,
            WANT_KL_REV="kl_rev" in want.stats,
            WANT_ENTROPY="entropy" in want.stats,
            WANT_DELTA="delta" in want.stats,
            **MEASURE,
        )
        rows = dict(zip(FOUND, measured.unbind(), strict=True))
        stats = {name: rows[name] for name in want.stats if name in rows}
        if cached is not None and cached.logp is not None and "logp_ref" in want.stats:
            stats["logp_ref"] = cached.logp.to(a.dtype)
        if "top_ref" in want.stats:
            stats["top_ref"] = self._top_ref
        return TokenStats(logp=rows["logp"], top=self._top, **stats)

    def gradient(
        self,
        slopes: Mapping[str, Tensor],
        *,
        scale: Tensor | None = None,
        norm: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """``scale`` * d loss / d logits [n, V], given ``slopes[x]`` = d loss / d x of every token.

        Written to ``out``, or over the policy's logits. ``norm`` takes the length of each row without the scale.
        """
        a = self.map("a")
        grad = a if out is None else out
        scale = torch.ones_like(self._measured[0]) if scale is None else scale.contiguous()
        columns = DIFFERENTIATE["BLOCK"] * DIFFERENTIATE["TILES"]
        grid = (self._size, triton.cdiv(self._num_vocab, columns))
        squares = scale if norm is None else torch.empty(grid[1], grid[0], dtype=a.dtype, device=a.device)
        differentiate_rows[grid](
            a,
            self._b(),
            self._targets,
            self._top,
            self._top_ref,
            self._measured,
            scale,
            *(slopes.get(name, scale).contiguous() for name in READ),
            grad,
            squares,
            self._size,
            self._num_vocab,
            a.stride(0),
            grad.stride(0),
            DIFFERENCE=self._difference,
            **{f"USE_{name.upper()}": name in slopes for name in READ},
            WANT_SQUARES=norm is not None,
            **DIFFERENTIATE,
        )
        if norm is not None:
            torch.sqrt(squares.sum(0), out=norm)
        return grad

    def _b(self) -> Tensor:
        return self.map("b" if self.want.live else "a")
