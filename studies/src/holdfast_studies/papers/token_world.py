"""A two-stage world small enough to list every response it can give, for the statements of [004] about exact expectations.

An attempt is ``length`` tokens of a small alphabet, written one after another; then STOP or RESAMPLE; the last attempt allowed
is always the answer. One network with shared weights gives both policies, as the paper assumes: fixed random features of
the state, a hidden layer, and a head each for tokens and for decisions. What a state remembers is [004]'s: the current attempt.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

STOP, RESAMPLE = 0, 1
FEATURES, HIDDEN = 6, 5
Attempt = tuple[int, ...]
Context = tuple[Attempt | None, Attempt, bool]
"""The attempt before (None: the first is being written), what stands of this one, and whether a decision is due."""


class Act(NamedTuple):
    """One token or one decision: in which context, and which."""

    context: int
    action: int
    decides: bool


class Response(NamedTuple):
    """A whole trajectory."""

    attempts: tuple[Attempt, ...]
    acts: tuple[Act, ...]
    right: bool


@dataclass(frozen=True)
class TokenWorld:
    """``target`` is the right attempt: all zeros."""

    length: int = 2
    alphabet: int = 2
    max_attempts: int = 3
    seed: int = 0

    @cached_property
    def contexts(self) -> dict[Context, int]:
        """Every state in which something is drawn, numbered."""
        texts = list(itertools.product(range(self.alphabet), repeat=self.length))
        starts = [
            start for size in range(self.length) for start in itertools.product(range(self.alphabet), repeat=size)
        ]
        writing: list[Context] = [(before, start, False) for before in (None, *texts) for start in starts]
        deciding: list[Context] = [(None, text, True) for text in texts]
        return {context: number for number, context in enumerate([*writing, *deciding])}

    @cached_property
    def features(self) -> Tensor:
        """[contexts, features], fixed."""
        generator = torch.Generator().manual_seed(self.seed)
        return torch.randn(len(self.contexts), FEATURES, generator=generator, dtype=torch.float64)

    def policy(self, seed: int, scale: float = 1.0) -> Tensor:
        """Weights of the shared network, as one vector."""
        generator = torch.Generator().manual_seed(10_007 * self.seed + seed)
        return scale * torch.randn(self.num_weights, generator=generator, dtype=torch.float64)

    @property
    def num_weights(self) -> int:
        """The number of weights of the hidden layer and the two heads."""
        return FEATURES * HIDDEN + HIDDEN * self.alphabet + HIDDEN * 2

    @property
    def token_head(self) -> slice:
        """The place of the weights that only tokens use."""
        return slice(FEATURES * HIDDEN, FEATURES * HIDDEN + HIDDEN * self.alphabet)

    @property
    def decision_head(self) -> slice:
        """Where the weights lie that only decisions use."""
        return slice(self.token_head.stop, self.num_weights)

    def logps(self, theta: Tensor) -> Tensor:
        """[contexts, actions]: log-probabilities of tokens, or of STOP and RESAMPLE where a decision is due."""
        hidden = torch.tanh(self.features @ theta[: FEATURES * HIDDEN].view(FEATURES, HIDDEN))
        tokens = (hidden @ theta[self.token_head].view(HIDDEN, -1)).log_softmax(-1)
        decisions = (hidden @ theta[self.decision_head].view(HIDDEN, 2)).log_softmax(-1)
        wide = torch.nn.functional.pad(decisions, (0, self.alphabet - 2))
        due = torch.tensor([decides for _, _, decides in self.contexts])[:, None]
        return torch.where(due, wide, tokens)

    @cached_property
    def responses(self) -> tuple[Response, ...]:
        """All responses that are possible."""
        texts = list(itertools.product(range(self.alphabet), repeat=self.length))
        return tuple(
            self._response(attempts)
            for number in range(1, self.max_attempts + 1)
            for attempts in itertools.product(texts, repeat=number)
        )

    def _response(self, attempts: tuple[Attempt, ...]) -> Response:
        acts: list[Act] = []
        before: Attempt | None = None
        for number, attempt in enumerate(attempts, 1):
            for place, token in enumerate(attempt):
                acts.append(Act(self.contexts[before, attempt[:place], False], token, False))
            if number < self.max_attempts:
                decision = STOP if number == len(attempts) else RESAMPLE
                acts.append(Act(self.contexts[None, attempt, True], decision, True))
            before = attempt
        return Response(attempts, tuple(acts), not any(attempts[-1]))

    def response_logps(self, logps: Tensor) -> Tensor:
        """[responses]: the log-probability of each response, the sum over its acts."""
        return torch.stack([logps[_index(response.acts)].sum() for response in self.responses])

    def scores(self, theta: Tensor) -> Tensor:
        """[contexts, actions, weights]: the gradient of every log-probability."""
        return torch.func.jacrev(self.logps)(theta)  # type: ignore[no-any-return]

    @cached_property
    def rewards(self) -> Tensor:
        """[responses]: 1 where the last attempt is right."""
        return torch.tensor([float(response.right) for response in self.responses], dtype=torch.float64)


def _index(acts: Sequence[Act]) -> tuple[Tensor, Tensor]:
    return torch.tensor([act.context for act in acts]), torch.tensor([act.action for act in acts])


def weighted_scores(scores: Tensor, response: Response, weights: Sequence[float | Tensor]) -> tuple[Tensor, Tensor]:
    """(the tokens' part, the decisions' part) of sum over acts of weight * grad log-probability."""
    zero = torch.zeros(scores.shape[-1], dtype=torch.float64)
    parts = [zero, zero.clone()]
    for act, weight in zip(response.acts, weights, strict=True):
        parts[act.decides] = parts[act.decides] + weight * scores[act.context, act.action]
    return parts[0], parts[1]


def given_so_far(world: TokenWorld, chances: Tensor, values: Sequence[Sequence[float]]) -> list[list[float]]:
    """E[values[r][i] | what stands up to and including act i], for every response r and act i: Q-values, by listing."""
    sums: dict[tuple[Act, ...], list[float]] = {}
    for response, chance, row in zip(world.responses, chances.tolist(), values, strict=True):
        for number, value in enumerate(row, 1):
            total = sums.setdefault(response.acts[:number], [0.0, 0.0])
            total[0] += chance * value
            total[1] += chance
    expected = {so_far: total[0] / total[1] for so_far, total in sums.items()}
    return [
        [expected[response.acts[: number + 1]] for number in range(len(response.acts))] for response in world.responses
    ]


def attempt_of(response: Response) -> list[int]:
    """For every act, the number of the attempt it belongs to, from 0; a decision belongs to the attempt before it."""
    numbers, attempt = [], 0
    for act in response.acts:
        numbers.append(attempt)
        attempt += act.decides
    return numbers


def attempt_ends(response: Response) -> list[int]:
    """For every act, where the action that it is part of ends: an attempt at its last token, a decision at itself."""
    numbers = attempt_of(response)
    last = {
        number: place for place, (number, act) in enumerate(zip(numbers, response.acts, strict=True)) if not act.decides
    }
    return [place if act.decides else last[numbers[place]] for place, act in enumerate(response.acts)]


def relative_error(found: Tensor, exact: Tensor) -> float:
    """|found - exact| / |exact|."""
    return float((found - exact).norm() / exact.norm())
