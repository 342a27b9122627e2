"""``token_stats``: one function, several ways to compute it."""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor

from holdfast.config import InputError, did_you_mean
from holdfast.heads.anchor import Reference
from holdfast.heads.chunked import chunked_stats
from holdfast.heads.reference import reference_stats
from holdfast.heads.stats import TokenStats
from holdfast.heads.want import Want

BACKENDS = ("auto", "reference", "chunked", "triton")


def token_stats(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    ref_hidden: Tensor | None = None,
    ref_weight: Tensor | None = None,
    ref_logp: Tensor | None = None,
    ref_top: Tensor | None = None,
    chunk_tokens: int | None = None,
    backend: str = "auto",
    soften: float | None = None,
    num_vocab: int | None = None,
    want: Collection[str] | None = None,
) -> TokenStats:
    """Token statistics (MATH §1) of N tokens from hidden states [N, H], a head's weight [V, H] and targets [N].

    Gradients flow to ``hidden`` and ``weight``, never to the anchor. The anchor is ``ref_hidden`` with ``ref_weight``
    (None: the policy's own head, detached), or ``ref_logp`` and ``ref_top`` from a cache (kl and kl_rev are None then).

    - ``chunk_tokens``: tokens whose logits are alive at a time; None: as many as a byte budget allows;
    - ``soften``: delta with softmaxes of this temperature in place of the argmaxes (MATH §2);
    - ``num_vocab``: rows of the head from there on are padding and count for nothing;
    - ``want``: only these statistics besides logp and top; None: all there are.
    """
    if backend not in BACKENDS:
        known = did_you_mean(backend, BACKENDS) or f"; known: {', '.join(BACKENDS)}"
        raise InputError(f"backend '{backend}' is unknown{known}")
    if backend == "triton":
        raise InputError("backend 'triton' is not available in this version; use 'auto' or 'chunked'")
    reference = None
    if ref_hidden is not None or ref_logp is not None:
        reference = Reference(hidden=ref_hidden, weight=ref_weight, logp=ref_logp, top=ref_top)
    wanted = Want.make(reference, want, soften)
    if backend == "reference":
        return reference_stats(hidden, weight, targets, reference, wanted, num_vocab=num_vocab)
    return chunked_stats(hidden, weight, targets, reference, wanted, chunk_tokens=chunk_tokens, num_vocab=num_vocab)
