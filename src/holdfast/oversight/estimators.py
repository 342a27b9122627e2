"""From one pool of m samples, what best-of-n would have given for every n <= m: unbiased, no further sampling (MATH §6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.config import InputError


@dataclass(frozen=True)
class Pool:
    """All samples for one prompt: their reward, whether they are safe, and their gold score if it is known."""

    rewards: tuple[float, ...]
    safe: tuple[bool, ...]
    gold: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        lengths = {len(self.rewards), len(self.safe), len(self.gold if self.gold is not None else self.rewards)}
        if len(lengths) != 1 or 0 in lengths:
            raise InputError(
                f"pool: expected as many rewards, verdicts and gold scores, at least one; got {sorted(lengths)}"
            )
        if any(math.isnan(reward) for reward in self.rewards):
            raise InputError("pool: a reward is NaN; mark that sample as not safe instead")

    @property
    def size(self) -> int:
        """The number of samples, m."""
        return len(self.rewards)

    def ascending(self) -> list[int]:
        """Samples from the last to be returned to the first: unsafe below everything, the first of equals on top."""
        return sorted(range(self.size), key=lambda index: (self.safe[index], self.rewards[index], -index))


def rank_weights(size: int, n: int) -> list[float]:
    """P(the i-th smallest of ``size`` is the largest of ``n`` drawn without replacement) = C(i-1, n-1) / C(size, n)."""
    _check_drawn(f"best-of-{n}", n, size)
    total = math.comb(size, n)
    return [math.comb(rank, n - 1) / total for rank in range(size)]


def expected(pool: Pool, values: Sequence[float], n: int) -> float:
    """E[value of what best-of-n with the filter returns]; an abstention is worth 0.

    An unsafe sample on top means that all n were unsafe: its own value would count an unsafe answer as returned.
    """
    weights = rank_weights(pool.size, n)
    return math.fsum(
        weight * (values[index] if pool.safe[index] else 0.0)
        for weight, index in zip(weights, pool.ascending(), strict=True)
    )


def abstention(pool: Pool, n: int) -> float:
    """P(all n are unsafe) = C(u, n) / C(m, n)."""
    _check_drawn(f"best-of-{n}", n, pool.size)
    return math.comb(pool.size - sum(pool.safe), n) / math.comb(pool.size, n)


def pass_at_k(size: int, num_right: int, k: int) -> float:
    """P(at least one of k drawn without replacement is right) = 1 - C(m - c, k) / C(m, k).

    Raises ``InputError`` unless 1 <= k <= ``size`` and 0 <= ``num_right`` <= ``size``: a pool of 10 says nothing of 11.
    """
    _check_drawn(f"pass@{k}", k, size)
    if not 0 <= num_right <= size:
        raise InputError(f"pass@{k} from a pool of {size}: expected 0 to {size} right ones, not {num_right}")
    return 1 - math.comb(size - num_right, k) / math.comb(size, k)


def _check_drawn(what: str, num: int, size: int) -> None:
    if not 1 <= num <= size:
        raise InputError(f"{what} from a pool of {size}: expected 1 to {size}")
