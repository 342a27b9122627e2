"""Token statistics from whole logits, by autograd: plain, and the oracle of every test."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from holdfast.config import InputError
from holdfast.heads.anchor import Reference
from holdfast.heads.products import logits_dtype
from holdfast.heads.sources import lowest
from holdfast.heads.stats import TokenStats
from holdfast.heads.want import Want


def reference_stats(
    hidden: Tensor, weight: Tensor, targets: Tensor, reference: Reference | None, want: Want, *, num_vocab: int | None
) -> TokenStats:
    """What ``token_stats`` gives, from all logits at once, in float32 (float64 stays)."""
    dtype = logits_dtype(torch.promote_types(hidden.dtype, weight.dtype))
    with torch.autocast(hidden.device.type, enabled=False):
        logits = hidden.to(dtype) @ weight[:num_vocab].to(dtype).t()
        ref_logits = None
        if want.live:
            assert reference is not None
            assert reference.hidden is not None
            anchor_weight = weight if reference.weight is None else reference.weight
            with torch.no_grad():
                ref_logits = reference.hidden.to(dtype) @ anchor_weight[:num_vocab].to(dtype).t()
        return _stats(logits, targets, ref_logits, reference, want)


def stats_from_logits(
    logits: Tensor,
    targets: Tensor,
    reference: Reference | None = None,
    *,
    soften: float | None = None,
    want: Collection[str] | None = None,
) -> TokenStats:
    """MATH §1 for logits [N, V] that a model has made itself; differentiable in them.

    ``reference`` holds logits, or cached logp and top. Raises ``InputError`` for tensors that do not fit together.
    """
    check_rows("stats_from_logits: logits", logits, targets, reference)
    wanted = Want.make(reference, want, soften)
    dtype = logits_dtype(logits.dtype)

    def usable(logits: Tensor) -> Tensor:
        return logits.to(dtype).clamp(min=lowest(dtype))  # -inf - -inf would be NaN

    ref_logits = None
    if wanted.live:
        assert reference is not None
        assert reference.logits is not None, "logits are compared with logits"
        ref_logits = usable(reference.logits.detach())
    return _stats(usable(logits), targets, ref_logits, reference, wanted)


def check_rows(what: str, states: Tensor, targets: Tensor, reference: Reference | None) -> None:
    """Raise ``InputError`` unless there is a row of ``states``, a whole number and a row of the anchor for each token."""
    if targets.is_floating_point() or targets.dim() != 1 or states.dim() != 2 or len(states) != len(targets):
        raise InputError(
            f"{what} {list(states.shape)} with targets {list(targets.shape)} of {targets.dtype}: expected a row for each"
            " token, [N, ...] and whole numbers [N]; the state before a token goes with it: hidden[:-1] and ids[1:]"
        )
    if reference is not None and reference.num_rows != len(targets):
        raise InputError(f"{what}: {len(targets)} tokens, and the anchor has {reference.num_rows}; expected the same")


def _stats(a: Tensor, targets: Tensor, b: Tensor | None, reference: Reference | None, want: Want) -> TokenStats:
    """The statistics as MATH §1 defines them."""
    log_p = a.log_softmax(-1)
    top = a.detach().argmax(-1)
    columns: dict[str, Tensor] = {}
    if "entropy" in want.stats:
        columns["entropy"] = -(log_p.exp() * log_p).sum(-1)
    if b is not None:
        log_q = b.log_softmax(-1)
        columns["logp_ref"], columns["top_ref"] = _at(log_q, targets), b.argmax(-1)
        if "kl" in want.stats:
            columns["kl"] = (log_p.exp() * (log_p - log_q)).sum(-1)
        if "kl_rev" in want.stats:
            columns["kl_rev"] = (log_q.exp() * (log_q - log_p)).sum(-1)
    elif reference is not None and reference.logp is not None:
        columns["logp_ref"] = reference.logp.to(a.dtype)
        if reference.top is not None:
            columns["top_ref"] = reference.top
    if want.soften is not None:
        assert b is not None
        soft, soft_ref = (a / want.soften).softmax(-1), (b / want.soften).softmax(-1)
        columns["delta"] = ((soft_ref - soft) * a).sum(-1)
    elif "delta" in want.stats:
        columns["delta"] = _at(a, columns["top_ref"]) - _at(a, top)
    return TokenStats(logp=_at(log_p, targets), top=top, **{name: columns[name] for name in want.stats})


def _at(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(1, index[:, None]).squeeze(1)
