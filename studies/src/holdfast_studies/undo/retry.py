"""Plain retry: answer again instead of taking back, with as many tokens as undo wrote."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Try:
    """One sampled answer. ``num_tokens`` are all that were written, undos and what they took back included."""

    right: bool
    num_tokens: int
    num_undos: int = 0
    mean_logp: float | None = None  # under the model that wrote it

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[dict[str, Any]]]) -> tuple[tuple[Try, ...], ...]:
        """Rebuild [request][try] from JSON."""
        return tuple(tuple(cls(**fields) for fields in tries) for tries in rows)


@dataclass(frozen=True)
class Retried:
    """For each request whether the chosen answer is right, and whether any is. ``spent`` counts tokens."""

    chosen: tuple[bool, ...]
    any_right: tuple[bool, ...]
    spent: int
    num_retries: int  # that were finished


def retry(tries: Sequence[Sequence[Try]], budget: int, seed: int) -> Retried:
    """Answer every request once; then answer again, request after request in a random order, until the budget is written.

    The answer that the budget ends in is cut off and does not count. Of the answers to a request the likeliest per token is
    chosen: nothing else is known about them. First answers are never cut: where they alone exceed the budget, ``spent``
    does too. Where all tries are used up before the budget is, ``spent`` stays below it.
    """
    finished = [[answers[0]] for answers in tries]
    spent, num_retries = sum(answers[0].num_tokens for answers in tries), 0
    order = list(range(len(tries)))
    random.Random(f"retry/{seed}").shuffle(order)
    waiting = [(request, number) for number in range(1, max(map(len, tries))) for request in order]
    for request, number in waiting:
        left = budget - spent
        if left <= 0:
            break
        if number >= len(tries[request]):
            continue
        again = tries[request][number]
        spent += min(again.num_tokens, left)
        if again.num_tokens <= left:
            finished[request].append(again)
            num_retries += 1
    chosen = tuple(max(answers, key=_likelihood).right for answers in finished)
    return Retried(chosen, tuple(any(one.right for one in answers) for answers in finished), spent, num_retries)


def _likelihood(answer: Try) -> float:
    return float("-inf") if answer.mean_logp is None else answer.mean_logp
