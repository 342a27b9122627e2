"""How likely a model finds an answer: a reward that needs nothing but the model itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from holdfast.config import InputError
from holdfast.heads import stats_from_logits
from holdfast.models import LoadedModel
from holdfast.models.positions import num_learned_positions
from holdfast.records import Reply, Role, Trace, Turn, answer
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


@dataclass(frozen=True)
class Likelihood:
    """The geometric mean of the token probabilities, so in [0, 1]. The plain likelihood would prefer the shortest answer.

    ``loaded``: the model that is asked where the sampler did not tell ``Reply.mean_logp``.
    """

    loaded: LoadedModel | None = None
    needs_logps = True

    def __call__(self, replies: Sequence[Reply]) -> list[float | None]:
        """None for a reply whose likelihood nobody knows; an ``InputError`` where that is all of them."""
        logps: list[float | None] = [reply.mean_logp for reply in replies]
        if self.loaded is not None and None in logps:
            computed = pair_logps(self.loaded, [(reply.turns, reply.text) for reply in replies])
            logps = [own if logp is None else logp for logp, own in zip(logps, computed, strict=True)]
        if replies and all(logp is None for logp in logps):
            raise InputError(
                "reward 'likelihood': the model's server tells no log-probabilities; with reward 'none' the first safe answer "
                "is returned"
            )
        return [None if logp is None else math.exp(logp) for logp in logps]
