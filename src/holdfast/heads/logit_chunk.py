"""One chunk of logits: its statistics, and the gradient in it of anything written on them.

An objective reads a handful of 1-D statistics, so its gradient in the logits is a handful of 1-D coefficients. With
g_x = d loss / d x of each token, p and q the softmaxes of a (policy) and b (anchor), d = a - b, D = sum p d:

    dl/da_j =   g_logp    (1[j=y] - p_j)
              + g_kl      p_j (d_j - D)
              + g_kl_rev  (p_j - q_j)
              + g_delta   (1[j=top_ref] - 1[j=top])
              - g_entropy p_j (log p_j + H)

So one kernel serves every objective. It costs one exponential per logit; the rest is products and sums in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.heads.anchor import Reference
from holdfast.heads.stats import TokenStats
from holdfast.heads.want import Want

ARGMAX_BLOCK = 256
BLOCK_BYTES = 16 * 2**20
"""Logits taken through all passes at once on a CPU: little enough for a large cache and for small scratch arrays, enough
that threads do not spend their time waiting for one another."""


class LogitChunk:
    """Arrays for one chunk at a time, kept from chunk to chunk: fresh memory is what costs most on a CPU."""

    def __init__(self, want: Want, rows: int, num_vocab: int, dtype: torch.dtype, device: torch.device) -> None:
        fitting = max(1, BLOCK_BYTES // (num_vocab * dtype.itemsize)) if device.type == "cpu" else rows
        self.want, self._size, self._block = want, rows, min(rows, fitting)
        self._kept = {name: torch.empty(rows, num_vocab, dtype=dtype, device=device) for name in kept_maps(want)}
        more = 2 if want.soften is not None else "kl_rev" in want.stats
        names = ("scratch", "scratch_2", "scratch_3")[: 1 + more]
        self._scratch = {name: torch.empty(self._block, num_vocab, dtype=dtype, device=device) for name in names}
        self._whole = self._block == rows  # then p can stay where it was made

    def resize(self, rows: int) -> None:
        """Use the first ``rows`` rows from now on."""
        self._size = rows

    def map(self, name: str) -> Tensor:
        """An array of the chunk. ``a`` and ``b`` are to be filled with logits before ``measure``."""
        return self._kept[name][: self._size]

    def _blocks(self) -> Iterator[slice]:
        return (slice(i, min(i + self._block, self._size)) for i in range(0, self._size, self._block))

    def take_difference(self) -> bool:
        """Whether ``b`` may be filled with a - b where both models share a head. Not here: it is made of b."""
        return False

    def measure(self, targets: Tensor, cached: Reference | None) -> TokenStats:
        """The statistics; afterwards ``gradient`` may be called once. ``cached``: logp and top of the anchor."""
        parts = []
        self._means: dict[str, list[Tensor]] = {"a": [], "d": []}
        for rows in self._blocks():
            known = None if cached is None else cached.rows(rows.start, rows.stop)
            parts.append(self._measure(rows, targets[rows], known))
        stats = TokenStats.cat(parts)
        self._targets, self._top, self._top_ref = targets, stats.top, stats.top_ref
        return stats

    def _measure(self, rows: slice, targets: Tensor, cached: Reference | None) -> TokenStats:
        """The statistics of some rows. p takes the place of a; p d that of b, or q if only kl_rev is wanted."""
        want, a = self.want, self.map("a")[rows]
        scratch = self._scratch["scratch"][: len(a)]
        columns = {} if cached is None else _known(cached, a.dtype)
        if want.live:
            b = self.map("b")[rows]
            anchor = _softmax(b, scratch)
            columns["logp_ref"], columns["top_ref"] = anchor.logp(b, targets), anchor.top
        if want.soften is not None:
            columns["delta"] = self._soft_delta(rows)
        if compared := want.stats & {"kl", "kl_rev"}:
            columns |= self._compare(rows, scratch)
        policy = _softmax(a, scratch)
        logp = policy.logp(a, targets)
        if "entropy" in want.stats:
            mean = torch.mul(scratch, a, out=self.map("pa")[rows]).sum(-1)
            columns["entropy"] = (policy.peak + policy.log_z - mean).clamp_(min=0)
            self._means["a"].append(mean)
        if "delta" in want.stats and want.soften is None:
            columns["delta"] = _at(a, columns["top_ref"]) - policy.peak
        if compared:
            self._diverge(rows, scratch, columns, (policy.peak - anchor.peak) + (policy.log_z - anchor.log_z))
        if not self._whole:
            a.copy_(scratch)
        return TokenStats(logp=logp, top=policy.top, **{name: columns[name] for name in want.stats})

    def _compare(self, rows: slice, q: Tensor) -> dict[str, Tensor]:
        """b becomes d. If kl_rev is wanted: sum q d under its name, and q is put where it may stay."""
        d = self.map("b")[rows]
        torch.sub(self.map("a")[rows], d, out=d)
        if "kl_rev" not in self.want.stats:
            return {}
        mean = torch.mul(q, d, out=self._scratch["scratch_2"][: len(q)]).sum(-1)
        self._home_of_q()[rows].copy_(q)
        return {"kl_rev": mean}

    def _home_of_q(self) -> Tensor:
        return self.map("q" if "kl" in self.want.stats else "b")

    def _diverge(self, rows: slice, p: Tensor, columns: dict[str, Tensor], shift: Tensor) -> None:
        """kl = D - shift and kl_rev = shift - sum q d, ``shift`` = LSE(a) - LSE(b). d becomes p d.

        Exactly 0 where a and b have the same bits; ``shift`` comes as a sum of differences, so that the size of the
        logits does not drown it.
        """
        if "kl" in self.want.stats:
            mean = self.map("b")[rows].mul_(p).sum(-1)
            columns["kl"] = (mean - shift).clamp_(min=0)
            self._means["d"].append(mean)
        if "kl_rev" in self.want.stats:
            columns["kl_rev"] = (shift - columns["kl_rev"]).clamp_(min=0)

    def _soft_delta(self, rows: slice) -> Tensor:
        """delta_tau = <r', a> - <r, a>, r = softmax(a / tau), r' = softmax(b / tau) (MATH §2).

        Leaves its gradient in a, r' - r - r (a - <r, a>) / tau, in ``soft``.
        """
        tau = self.want.soften
        assert tau is not None
        a, grad = self.map("a")[rows], self.map("soft")[rows]
        r, other = (self._scratch[name][: len(a)] for name in ("scratch_2", "scratch_3"))
        torch.softmax(torch.div(self.map("b")[rows], tau, out=other), -1, out=grad)
        torch.softmax(torch.div(a, tau, out=other), -1, out=r)
        grad.sub_(r)
        delta = torch.mul(grad, a, out=other).sum(-1)
        mean = torch.mul(r, a, out=other).sum(-1, keepdim=True)
        grad.sub_(r.mul_(torch.sub(a, mean, out=other).div_(tau)))
        return delta

    def gradient(
        self,
        slopes: Mapping[str, Tensor],
        *,
        scale: Tensor | None = None,
        norm: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """``scale`` * d loss / d logits [n, V], given ``slopes[x]`` = d loss / d x of every token. Uses up the arrays.

        ``norm`` takes the length of each row without the scale; ``out`` the gradient, in its own dtype.
        """
        if scale is not None and norm is None:
            slopes = {name: slope * scale for name, slope in slopes.items()}
        grad = self._gradient(slopes)
        if norm is not None:
            norm.copy_(torch.linalg.vector_norm(grad, dim=-1))
            if scale is not None:
                grad.mul_(scale[:, None])
        return grad if out is None else out.copy_(grad)

    def _gradient(self, slopes: Mapping[str, Tensor]) -> Tensor:
        grad = self._scratch["scratch"][: self._size] if self._whole else self.map("a")
        base = torch.zeros_like(grad[:, 0])
        added: list[tuple[Tensor, Tensor]] = []
        if "logp" in slopes:
            base -= slopes["logp"]
        if "kl" in slopes:
            base -= slopes["kl"] * torch.cat(self._means["d"])
            added.append((self.map("b"), slopes["kl"]))
        if "kl_rev" in slopes:
            base += slopes["kl_rev"]
            added.append((self._home_of_q(), -slopes["kl_rev"]))
        if "entropy" in slopes:
            base += slopes["entropy"] * torch.cat(self._means["a"])
            added.append((self.map("pa"), -slopes["entropy"]))
        if "delta" in slopes and self.want.soften is not None:
            added.append((self.map("soft"), slopes["delta"]))
        for rows in self._blocks():
            grad[rows].mul_(base[rows, None])
            for part, slope in added:
                grad[rows].add_(part[rows].mul_(slope[rows, None]))
        self._add_spikes(grad, slopes)
        return grad

    def _add_spikes(self, grad: Tensor, slopes: Mapping[str, Tensor]) -> None:
        """The terms at single tokens, one at a time: y, top and top_ref may coincide."""
        rows = torch.arange(len(grad), device=grad.device)
        if "logp" in slopes:
            grad[rows, self._targets] += slopes["logp"]
        if "delta" in slopes and self.want.soften is None:
            assert self._top_ref is not None
            grad[rows, self._top_ref] += slopes["delta"]
            grad[rows, self._top] -= slopes["delta"]


def kept_maps(want: Want) -> tuple[str, ...]:
    """The [chunk, V] arrays that live until the gradient."""
    names = ["a"]
    if want.live:
        names.append("b")
    if {"kl", "kl_rev"} <= want.stats:
        names.append("q")
    if "entropy" in want.stats:
        names.append("pa")
    if want.soften is not None:
        names.append("soft")
    return tuple(names)


class _Rows(NamedTuple):
    """For each row of logits: the first place of its largest value, that value, and LSE minus it."""

    top: Tensor
    peak: Tensor
    log_z: Tensor

    def logp(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (_at(logits, targets) - self.peak) - self.log_z


def _softmax(logits: Tensor, out: Tensor) -> _Rows:
    top = first_argmax(logits)
    torch.softmax(logits, -1, out=out)
    return _Rows(top, _at(logits, top), -_at(out, top).log())  # the largest exponential is 1, so p[top] = 1 / sum


def _known(cached: Reference, dtype: torch.dtype) -> dict[str, Tensor]:
    assert cached.logp is not None
    columns = {"logp_ref": cached.logp.to(dtype)}
    return columns if cached.top is None else {**columns, "top_ref": cached.top}


def _at(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(1, index[:, None]).squeeze(1)


def first_argmax(values: Tensor) -> Tensor:
    """The first index of every row's maximum.

    On a CPU by blocks, because torch finds a maximum there far faster than its place.
    """
    num_blocks = values.shape[1] // ARGMAX_BLOCK
    if values.device.type != "cpu" or num_blocks < 16:
        return values.argmax(-1)
    head = values[:, : num_blocks * ARGMAX_BLOCK].unflatten(1, (num_blocks, ARGMAX_BLOCK))
    block = head.amax(-1).argmax(-1)
    inside: Tensor = head[torch.arange(len(values)), block]
    places: Tensor = block * ARGMAX_BLOCK + inside.argmax(-1)
    tail = values[:, num_blocks * ARGMAX_BLOCK :]
    if tail.shape[1] == 0:
        return places
    last, place = tail.max(-1)
    return torch.where(last > inside.amax(-1), place + num_blocks * ARGMAX_BLOCK, places)
