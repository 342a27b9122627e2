"""Two models read the same answers: what each gives every token, and how far they are apart by position in the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast.config import InputError
from holdfast.heads.anchor import Reference
from holdfast.heads.whole_logits import stats_from_logits
from holdfast.models import LoadedModel
from holdfast.models.head_access import head_replaced
from holdfast.models.positions import num_learned_positions
from holdfast.records import Role, Trace
from holdfast.tokens import TokenBatch, TokenRow, pad, tokenize_all


@dataclass(frozen=True)
class AnswerStats:
    """The statistics of one row's answer tokens: float64, on the CPU. Without an anchor ``logp_ref`` and ``kl`` are None."""

    logp: Tensor
    logp_ref: Tensor | None
    kl: Tensor | None  # KL(policy || anchor)


@torch.inference_mode()
def answer_stats(
    policy: LoadedModel,
    anchor: LoadedModel | None,
    rows: Sequence[Trace],
    *,
    batch_size: int = 64,
) -> list[AnswerStats]:
    """The statistics of every row's answer, in order. The policy's tokenizer reads for both models.

    Learned positions cut a row short. A row without an answer within them is left out.
    """
    readable = min(num_learned_positions(loaded.model.config) for loaded in (policy, anchor) if loaded)
    token_rows, _ = tokenize_all(rows, policy.tokenizer, max_length=readable)
    stats_of_row: dict[int, AnswerStats] = {}
    for indices in _similar_lengths(token_rows, batch_size):
        chosen = [token_rows[index] for index in indices]
        batch = pad(chosen, policy.tokenizer.pad_token_id or 0)
        is_target = (batch.roles != Role.PROMPT)[:, 1:]
        targets = batch.ids[:, 1:][is_target].to(policy.device)
        reference = None
        if anchor is not None:
            reference = Reference(logits=_answer_logits(anchor, batch, is_target).to(policy.device))
        want = () if anchor is None else ("logp_ref", "kl")
        stats = stats_from_logits(_answer_logits(policy, batch, is_target), targets, reference, want=want)
        lengths = is_target.sum(1).tolist()
        columns = (_by_row(values, lengths) for values in (stats.logp, stats.logp_ref, stats.kl))
        stats_of_row.update(zip(indices, map(AnswerStats, *columns), strict=True))
    return [stats_of_row[index] for index in range(len(token_rows))]


def all_answer_stats(loaded: LoadedModel, rows: Sequence[Trace], *, batch_size: int = 64) -> list[AnswerStats]:
    """The statistics of every row by one model. Raises ``InputError`` where a request leaves its answer no position."""
    stats = answer_stats(loaded, None, rows, batch_size=batch_size)
    if len(stats) < len(rows):
        raise InputError(
            f"{loaded.name}: {len(rows) - len(stats)} of {len(rows)} requests have no room for an answer behind them:"
            f" this model reads {num_learned_positions(loaded.model.config)} tokens"
        )
    return stats


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


def _similar_lengths(rows: Sequence[TokenRow], batch_size: int) -> Iterator[list[int]]:
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def _answer_logits(loaded: LoadedModel, batch: TokenBatch, is_target: Tensor) -> Tensor:
    """Logits [N, V] of the answers' tokens, each predicted from the token before it; no others are ever made."""
    keep = is_target.to(loaded.device)

    def at_answers(hidden: Tensor, head: nn.Module) -> Tensor:
        logits: Tensor = type(head).forward(head, hidden[:, :-1][keep])
        return logits

    inputs = {name: v.to(loaded.device) if isinstance(v, Tensor) else v for name, v in batch.model_inputs().items()}
    with head_replaced(loaded.model, at_answers):
        logits: Tensor = loaded.model(**inputs).logits
    return logits


def _by_row(values: Tensor | None, lengths: Sequence[int]) -> Sequence[Tensor | None]:
    return [None] * len(lengths) if values is None else values.double().cpu().split(list(lengths))
