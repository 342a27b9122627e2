"""Rewards for the server: from the backend's likelihoods, or a text reward in a thread."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from holdfast.serve.backends import Draw
from holdfast.serve.overseen import Reward, no_reward
from holdfast.serve.protocol import AnswerRequest

LIKELIHOOD = "likelihood"


def make_reward(name: str) -> Reward:
    """By the names of `find_reward`; ``likelihood`` is told by the backend with its draws."""
    if name == "none":
        return no_reward
    if name == LIKELIHOOD:
        return _likelihood
    from holdfast.oversight.rewards import find_reward  # brings torch, which a server in front of others does not need

    text_reward = find_reward(name)
    assert text_reward is not None

    async def reward(request: AnswerRequest, draws: Sequence[Draw]) -> Sequence[float | None]:
        return await asyncio.to_thread(text_reward, request.turns, [draw.shown for draw in draws])

    return reward


async def _likelihood(_request: AnswerRequest, draws: Sequence[Draw]) -> Sequence[float | None]:
    if all(draw.mean_logp is None for draw in draws):
        raise ValueError("the backend tells no log-probabilities")
    return [None if draw.mean_logp is None else math.exp(draw.mean_logp) for draw in draws]
