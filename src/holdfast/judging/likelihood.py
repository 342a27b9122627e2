"""How likely a model finds an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from holdfast.heads import stats_from_logits
from holdfast.models import LoadedModel
from holdfast.models.positions import num_learned_positions
from holdfast.records import Role, Trace, Turn, answer
from holdfast.tokens import pad, tokenize_all


@torch.inference_mode()
def pair_logps(loaded: LoadedModel, pairs: Sequence[tuple[Sequence[Turn], str]]) -> list[float]:
    """Log-likelihood per token of each (request, answer), the end of the answer included; -inf for an empty one.

    Answers of like length are read together. A model with learned positions reads an answer as far as these go.
    """
    batch_size = 64 if loaded.device.type == "cuda" else 16
    traces = [Trace((*turns, answer(text))) for turns, text in pairs if text]
    rows, _ = tokenize_all(traces, loaded.tokenizer, max_length=num_learned_positions(loaded.model.config))
    order = sorted(range(len(rows)), key=lambda index: len(rows[index].ids))
    logps: dict[int, float] = {}
    for start in range(0, len(rows), batch_size):
        chosen = order[start : start + batch_size]
        batch = pad([rows[index] for index in chosen], loaded.tokenizer.pad_token_id or 0).to(loaded.device)
        logits = loaded.model(**batch.model_inputs()).logits[:, :-1]
        is_answer = (batch.roles != Role.PROMPT)[:, 1:]
        logp = stats_from_logits(logits[is_answer].float(), batch.ids[:, 1:][is_answer]).logp
        means = [float(part.mean()) for part in logp.split(is_answer.sum(1).tolist())]
        logps.update(zip(chosen, means, strict=True))
    values = iter(logps[index] for index in range(len(rows)))
    return [next(values) if text else -math.inf for _, text in pairs]
