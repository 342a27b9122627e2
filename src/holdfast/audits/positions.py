"""How deep a change goes: the divergence from the anchor by position in the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from holdfast.audits.answer_stats import answer_stats
from holdfast.models import LoadedModel
from holdfast.records import Trace


def kl_by_position(
    policy: LoadedModel, anchor: LoadedModel, rows: Sequence[Trace], *, batch_size: int = 64
) -> tuple[float, ...]:
    """Mean KL(policy || anchor) at answer token 1, 2, ... of these rows, both models reading the same answers."""
    stats = answer_stats(policy, anchor, rows, batch_size=batch_size)
    return mean_by_position(row.kl for row in stats if row.kl is not None)


def mean_by_position(rows: Iterable[Tensor]) -> tuple[float, ...]:
    """At every position, the mean over the rows that reach it."""
    values = [*rows]
    if not values:
        return ()
    padded = torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=torch.nan)
    return tuple(padded.nanmean(0).tolist())
