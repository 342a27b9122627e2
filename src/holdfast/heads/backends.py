"""``token_stats``: one function, several ways to compute it."""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor

from holdfast.config import InputError
from holdfast.heads.anchor import Reference
from holdfast.heads.choose import BACKENDS, chunk_class
from holdfast.heads.chunked import chunked_stats
from holdfast.heads.stats import TokenStats
from holdfast.heads.want import Want
from holdfast.heads.whole_logits import check_rows, reference_stats

__all__ = ["BACKENDS", "token_stats"]


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

    - ``backend``: ``auto`` takes the Triton kernels on a GPU and plain torch elsewhere;
    - ``chunk_tokens``: tokens whose logits are alive at a time; None: as many as a byte budget allows;
    - ``soften``: delta with softmaxes of this temperature in place of the argmaxes (MATH §2);
    - ``num_vocab``: rows of the head from there on are padding and count for nothing;
    - ``want``: only these statistics besides logp and top; None: all there are.

    Raises ``InputError`` for tensors that do not fit together, and for targets that are no token, such as -100.
    """
    reference = None
    if any(given is not None for given in (ref_hidden, ref_weight, ref_logp, ref_top)):
        reference = Reference(hidden=ref_hidden, weight=ref_weight, logp=ref_logp, top=ref_top)
    check_rows("token_stats: hidden", hidden, targets, reference)
    _check_ids(targets, len(weight[:num_vocab]))
    wanted = Want.make(reference, want, soften)
    chunk_class(backend, hidden.device, wanted)  # says at once what is wrong with the name
    if backend == "reference":
        return reference_stats(hidden, weight, targets, reference, wanted, num_vocab=num_vocab)
    return chunked_stats(
        hidden, weight, targets, reference, wanted, chunk_tokens=chunk_tokens, num_vocab=num_vocab, backend=backend
    )


def _check_ids(targets: Tensor, num_vocab: int) -> None:
    if len(targets) == 0:
        return
    low, high = (int(end) for end in targets.aminmax())
    if low < 0 or high >= num_vocab:
        wrong = low if low < 0 else high
        raise InputError(
            f"token_stats: a target is {wrong}, and the head has {num_vocab} tokens;"
            " give only the tokens that count: hidden[keep], targets[keep] with keep = targets != -100"
        )
