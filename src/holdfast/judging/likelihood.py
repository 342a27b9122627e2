"""How likely a model finds an answer: a reward that needs nothing but the model itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.config import InputError
from holdfast.heads.answer_stats import all_answer_stats
from holdfast.models import LoadedModel
from holdfast.records import Reply, Trace, Turn, answer


def pair_logps(loaded: LoadedModel, pairs: Sequence[tuple[Sequence[Turn], str]]) -> list[float]:
    """Log-likelihood per token of each (request, answer), the end of the answer included; -inf for an empty one.

    A model with learned positions reads an answer as far as these go. Raises ``InputError`` where they end with the request.
    """
    rows = [Trace((*turns, answer(text))) for turns, text in pairs if text]
    stats = all_answer_stats(loaded, rows, batch_size=64 if loaded.device.type == "cuda" else 16)
    means = iter([float(row.logp.mean()) for row in stats])
    return [next(means) if text else -math.inf for _, text in pairs]


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
            logps = [by_model if logp is None else logp for logp, by_model in zip(logps, computed, strict=True)]
        if replies and all(logp is None for logp in logps):
            raise InputError(
                "reward 'likelihood': the model's server tells no log-probabilities; with reward 'none' the first safe answer "
                "is returned"
            )
        return [None if logp is None else math.exp(logp) for logp in logps]
