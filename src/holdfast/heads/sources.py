"""Where logits come from: a head's product, or a model that has made them already."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.config import InputError
from holdfast.heads.anchor import Reference
from holdfast.heads.products import logits_dtype, logits_into


@dataclass(frozen=True, slots=True)
class HeadLogits:
    """Hidden states [N, H] times a weight [V, H], both in the operands' dtype."""

    hidden: Tensor
    weight: Tensor

    @property
    def num_vocab(self) -> int:
        """Columns of the logits."""
        return len(self.weight)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the logits."""
        return logits_dtype(self.hidden.dtype)

    @property
    def made_of(self) -> torch.dtype:
        """The dtype of the operands."""
        return self.hidden.dtype

    @property
    def device(self) -> torch.device:
        """Where the logits are computed."""
        return self.hidden.device

    def fill(self, out: Tensor, rows: slice) -> None:
        """Compute the logits of these rows: hidden states times weight."""
        logits_into(out, self.hidden[rows], self.weight)


@dataclass(frozen=True, slots=True)
class GivenLogits:
    """Logits [N, V] that a model has made already."""

    logits: Tensor

    @property
    def num_vocab(self) -> int:
        """Columns of the logits."""
        return self.logits.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the statistics."""
        return logits_dtype(self.logits.dtype)

    @property
    def made_of(self) -> torch.dtype:
        """The dtype that the model gave them."""
        return self.logits.dtype

    @property
    def device(self) -> torch.device:
        """Where the logits are."""
        return self.logits.device

    def fill(self, out: Tensor, rows: slice) -> None:
        """Copy and widen; a column that the model switched off by -inf must not become inf - inf in a - b."""
        out.copy_(self.logits[rows]).clamp_(min=lowest(out.dtype))


Source = HeadLogits | GivenLogits


def aligned_rows(num_rows: int, policy: HeadLogits) -> Tensor:
    """An array [n, V] in the operands' dtype, nothing in it, whose rows begin where wide loads and products want."""
    stride = aligned(policy.num_vocab)
    whole = torch.empty(num_rows, stride, dtype=policy.weight.dtype, device=policy.device)
    return whole[:, : policy.num_vocab]


def aligned(num_vocab: int) -> int:
    """Columns of a row with its padding."""
    return -(-num_vocab // 64) * 64


def lowest(dtype: torch.dtype) -> float:
    """Low enough for a probability of 0, and differences of two such are still finite."""
    return torch.finfo(dtype).min / 4


def head_logits(hidden: Tensor, weight: Tensor, dtype: torch.dtype, num_vocab: int | None) -> HeadLogits:
    """Operands without gradient, without padded vocabulary rows, in one dtype."""
    assert hidden.dim() == 2, "hidden states of tokens: [N, H]"
    assert not hasattr(weight, "device_mesh"), "a sharded weight: compute token statistics inside the root forward"
    return HeadLogits(hidden.detach().to(dtype).contiguous(), weight.detach()[:num_vocab].to(dtype))


def anchor_source(reference: Reference | None, policy: Source, num_vocab: int | None) -> Source | None:
    """The anchor's logits, if it has any; its head is the policy's own unless it brings one."""
    if reference is None or not reference.live:
        return None
    if reference.logits is not None:
        source: Source = GivenLogits(reference.logits.detach())
    else:
        assert reference.hidden is not None
        assert isinstance(policy, HeadLogits)
        weight = policy.weight if reference.weight is None else reference.weight
        source = head_logits(reference.hidden, weight, policy.hidden.dtype, num_vocab)
    if source.num_vocab != policy.num_vocab:
        raise InputError(
            f"the policy's head has {policy.num_vocab} tokens and the anchor's {source.num_vocab}: "
            "give the anchor the same new tokens, or say num_vocab"
        )
    return source
