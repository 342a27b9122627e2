"""One chunk of logits: its statistics, and the gradient in it of anything written on them.

An objective reads a handful of 1-D statistics, so its gradient in the logits is a handful of 1-D coefficients. With
g_x = d loss / d x of each token, p and q the softmaxes of a (policy) and b (anchor), d = a - b, D = sum p d:

    dl/da_j =   g_logp    (1[j=y] - p_j)
              + g_kl      p_j (d_j - D)
              + g_kl_rev  (p_j - q_j)
              + g_delta   (1[j=top_ref] - 1[j=top])
              - g_entropy p_j (log p_j + H)

So one kernel serves every objective. It costs one exponential per logit; everything else is products and sums in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.config import InputError
from holdfast.heads.anchor import Reference
from holdfast.heads.stats import FROM_ANCHOR, FROM_ANCHOR_LOGITS, TokenStats

ARGMAX_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Want:
    """Which statistics to take besides logp and top, and what they are taken from."""

    stats: frozenset[str]
    live: bool  # the anchor's logits are at hand
    soften: float | None

    @staticmethod
    def make(reference: Reference | None, asked: Iterable[str] | None, soften: float | None) -> Want:
        """Everything that the reference allows, or what was asked for of it; delta brings top_ref along."""
        if soften is not None and not soften > 0:
            raise InputError(f"soften: expected a temperature above 0, got {soften}")
        possible = {"entropy", *FROM_ANCHOR}
        if reference is None:
            possible -= set(FROM_ANCHOR)
        elif not reference.live:
            possible -= set(FROM_ANCHOR_LOGITS)
            if reference.top is None:
                possible -= {"delta", "top_ref"}
        stats = frozenset(possible if asked is None else possible & set(asked))
        live = reference is not None and reference.live and not stats.isdisjoint(FROM_ANCHOR)
        if "delta" not in stats:
            return Want(stats, live, None)
        if soften is not None and not live:
            raise InputError("a softened argmax needs the anchor's hidden states or logits: a cache cannot give it")
        return Want(stats | {"top_ref"}, live, soften)

    @property
    def maps(self) -> tuple[str, ...]:
        """The [chunk, V] arrays kept: ``a`` becomes p d, ``b`` becomes d and then scratch."""
        names = ["a", "p"]
        if self.live:
            names.append("b")
        if "kl_rev" in self.stats:
            names.append("q")
        if "entropy" in self.stats:
            names.append("pa")
        if self.soften is not None:
            names += ["soft", "soft_ref", "scratch"]
        return tuple(names)


class LogitChunk:
    """Arrays for one chunk at a time, kept from chunk to chunk: fresh memory is what costs most on a CPU."""

    def __init__(self, want: Want, rows: int, num_vocab: int, dtype: torch.dtype, device: torch.device) -> None:
        self.want = want
        self._maps = {name: torch.empty(rows, num_vocab, dtype=dtype, device=device) for name in want.maps}
        self._size = rows

    def resize(self, rows: int) -> LogitChunk:
        """Use the first ``rows`` rows from now on."""
        self._size = rows
        return self

    def map(self, name: str) -> Tensor:
        """``a`` and ``b`` are to be filled with logits before ``measure``."""
        return self._maps[name][: self._size]

    def measure(self, targets: Tensor, cached: Reference | None) -> TokenStats:
        """The statistics; afterwards ``gradient`` may be called once. ``cached``: logp and top of the anchor."""
        want, a, p = self.want, self.map("a"), self.map("p")
        self.targets, self.means = targets, {}
        found, peak_ref, log_z_ref = self._anchor(targets, cached)
        peak, self.top, log_z = _softmax(a, p)
        self.top_ref = found.get("top_ref")
        if "entropy" in want.stats:
            self.means["a"] = torch.mul(p, a, out=self.map("pa")).sum(-1)
            found["entropy"] = (peak + log_z - self.means["a"]).clamp_(min=0)
        if "delta" in want.stats:
            found["delta"] = self._soft_delta() if want.soften is not None else _at(a, found["top_ref"]) - peak
        logp = (_at(a, targets) - peak) - log_z
        if want.stats & {"kl", "kl_rev"}:
            found |= self._divergences((peak - peak_ref) + (log_z - log_z_ref))
        return TokenStats(logp=logp, top=self.top, **{name: found[name] for name in want.stats})

    def _anchor(self, targets: Tensor, cached: Reference | None) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """logp_ref and top_ref; the largest anchor logit, and LSE(b) minus it.

        The softmax goes to q, or where q is not kept to p, whose turn comes later.
        """
        if self.want.live:
            b = self.map("b")
            peak, top, log_z = _softmax(b, self.map("q" if "kl_rev" in self.want.stats else "p"))
            return {"logp_ref": (_at(b, targets) - peak) - log_z, "top_ref": top}, peak, log_z
        nothing = self.map("a").new_zeros(())
        if cached is None:
            return {}, nothing, nothing
        assert cached.logp is not None
        found = {"logp_ref": cached.logp.to(nothing.dtype)}
        if cached.top is not None:
            found["top_ref"] = cached.top
        return found, nothing, nothing

    def _divergences(self, shift: Tensor) -> dict[str, Tensor]:
        """kl = D - shift and kl_rev = shift - sum q d, ``shift`` = LSE(a) - LSE(b). Uses up a and b.

        Exactly 0 where a and b have the same bits; ``shift`` comes as a sum of differences, so that the size of the
        logits does not drown it.
        """
        a, p, d = self.map("a"), self.map("p"), self.map("b")
        found: dict[str, Tensor] = {}
        torch.sub(a, d, out=d)
        if "kl" in self.want.stats:
            self.means["d"] = torch.mul(p, d, out=a).sum(-1)
            found["kl"] = (self.means["d"] - shift).clamp_(min=0)
        if "kl_rev" in self.want.stats:
            found["kl_rev"] = (shift - torch.mul(self.map("q"), d, out=d).sum(-1)).clamp_(min=0)
        return found

    def _soft_delta(self) -> Tensor:
        """delta_tau = <r', a> - <r, a>, r = softmax(a / tau), r' = softmax(b / tau) (MATH §2).

        Leaves its gradient in a, r' - r - r (a - <r, a>) / tau, in ``soft_ref``.
        """
        tau = self.want.soften
        assert tau is not None
        a, soft, soft_ref, scratch = (self.map(name) for name in ("a", "soft", "soft_ref", "scratch"))
        torch.softmax(torch.div(self.map("b"), tau, out=scratch), -1, out=soft_ref)
        torch.softmax(torch.div(a, tau, out=scratch), -1, out=soft)
        soft_ref.sub_(soft)
        delta = torch.mul(soft_ref, a, out=scratch).sum(-1)
        mean = torch.mul(soft, a, out=scratch).sum(-1, keepdim=True)
        soft_ref.sub_(soft.mul_(torch.sub(a, mean, out=scratch).div_(tau)))
        return delta

    def gradient(self, slopes: Mapping[str, Tensor]) -> Tensor:
        """d loss / d logits [n, V], given ``slopes[x]`` = d loss / d x of every token. Uses up the maps."""
        p = self.map("p")
        base = torch.zeros_like(p[:, 0])
        added: list[tuple[Tensor, Tensor]] = []
        if "logp" in slopes:
            base -= slopes["logp"]
        if "kl" in slopes:
            base -= slopes["kl"] * self.means["d"]
            added.append((self.map("a"), slopes["kl"]))
        if "kl_rev" in slopes:
            base += slopes["kl_rev"]
            added.append((self.map("q"), -slopes["kl_rev"]))
        if "entropy" in slopes:
            base += slopes["entropy"] * self.means["a"]
            added.append((self.map("pa"), -slopes["entropy"]))
        if "delta" in slopes and self.want.soften is not None:
            added.append((self.map("soft_ref"), slopes["delta"]))
        p.mul_(base[:, None])
        for each, slope in added:
            p.add_(each.mul_(slope[:, None]))
        self._add_spikes(p, slopes)
        return p

    def _add_spikes(self, grad: Tensor, slopes: Mapping[str, Tensor]) -> None:
        """The terms at single tokens, one at a time: y, top and top_ref may coincide."""
        rows = torch.arange(len(grad), device=grad.device)
        if "logp" in slopes:
            grad[rows, self.targets] += slopes["logp"]
        if "delta" in slopes and self.want.soften is None:
            assert self.top_ref is not None
            grad[rows, self.top_ref] += slopes["delta"]
            grad[rows, self.top] -= slopes["delta"]


def _softmax(logits: Tensor, out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The softmax into ``out``; the largest logit of every row, its index, and LSE minus it."""
    top = first_argmax(logits)
    torch.softmax(logits, -1, out=out)
    return _at(logits, top), top, -_at(out, top).log()  # the largest exponential is 1, so p[top] = 1 / sum


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
    found: Tensor = block * ARGMAX_BLOCK + inside.argmax(-1)
    tail = values[:, num_blocks * ARGMAX_BLOCK :]
    if tail.shape[1] == 0:
        return found
    last, place = tail.max(-1)
    return torch.where(last > inside.amax(-1), place + num_blocks * ARGMAX_BLOCK, found)
