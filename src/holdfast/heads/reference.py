"""Token statistics from whole logits, by autograd: plain, and the oracle of every test."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from holdfast.heads.anchor import Reference
from holdfast.heads.products import logits_dtype
from holdfast.heads.sources import lowest
from holdfast.heads.stats import TokenStats
from holdfast.heads.want import Want


def reference_stats(
    hidden: Tensor, weight: Tensor, targets: Tensor, reference: Reference | None, want: Want, *, num_vocab: int | None
) -> TokenStats:
    """See ``token_stats``. All logits at once, in float32 (float64 stays)."""
    dtype = logits_dtype(torch.promote_types(hidden.dtype, weight.dtype))
    with torch.autocast(hidden.device.type, enabled=False):
        logits = hidden.to(dtype) @ weight[:num_vocab].to(dtype).t()
        if want.live:
            assert reference is not None
            assert reference.hidden is not None
            anchor_weight = weight if reference.weight is None else reference.weight
            with torch.no_grad():
                ref_logits = reference.hidden.to(dtype) @ anchor_weight[:num_vocab].to(dtype).t()
            reference = Reference(logits=ref_logits)
        elif reference is not None and reference.live:
            reference = None
        return stats_from_logits(logits, targets, reference, soften=want.soften, want=want.stats)


def stats_from_logits(
    logits: Tensor,
    targets: Tensor,
    reference: Reference | None = None,
    *,
    soften: float | None = None,
    num_vocab: int | None = None,
    want: Collection[str] | None = None,
) -> TokenStats:
    """MATH §1, literally: logits [N, V] in, differentiable statistics out.

    ``reference`` holds logits, or cached logp and top. For logits that a model has made itself, and for tests.
    """
    wanted = Want.make(reference, want, soften)
    dtype = logits_dtype(logits.dtype)
    a = logits[:, :num_vocab].to(dtype).clamp(min=lowest(dtype))
    log_p = a.log_softmax(-1)
    found: dict[str, Tensor] = {}
    if "entropy" in wanted.stats:
        found["entropy"] = -(log_p.exp() * log_p).sum(-1)
    top = a.detach().argmax(-1)
    if wanted.live:
        assert reference is not None
        assert reference.logits is not None, "logits are compared with logits"
        b = reference.logits.detach()[:, :num_vocab].to(dtype).clamp(min=lowest(dtype))
        log_q = b.log_softmax(-1)
        found |= _divergences(log_p, log_q, wanted.stats)
        found["logp_ref"], found["top_ref"] = _at(log_q, targets), b.argmax(-1)
        if wanted.soften is not None:
            tau = wanted.soften
            found["delta"] = (((b / tau).softmax(-1) - (a / tau).softmax(-1)) * a).sum(-1)
    elif reference is not None and reference.logp is not None:
        found["logp_ref"] = reference.logp.to(a.dtype)
        if reference.top is not None:
            found["top_ref"] = reference.top
    if "delta" in wanted.stats and "delta" not in found:
        found["delta"] = _at(a, found["top_ref"]) - _at(a, top)
    return TokenStats(logp=_at(log_p, targets), top=top, **{name: found[name] for name in wanted.stats})


def _divergences(log_p: Tensor, log_q: Tensor, wanted: Collection[str]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    if "kl" in wanted:
        found["kl"] = (log_p.exp() * (log_p - log_q)).sum(-1)
    if "kl_rev" in wanted:
        found["kl_rev"] = (log_q.exp() * (log_q - log_p)).sum(-1)
    return found


def _at(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(1, index[:, None]).squeeze(1)
