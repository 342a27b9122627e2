"""How far best-of-n with a filter moves a model: the KL divergence, exact and bounded (MATH §6).

Candidates are i.i.d. and ties go to the first, so the divergence between sequences equals the one between the distributions
of the key (S, R).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Divergence(NamedTuple):
    """Divergences in nats, given that something is returned. Infinite is infinite; NaN where nothing is ever returned."""

    from_base: float  # KL(overseen || base): finite
    to_base: float  # KL(base || overseen): infinite as soon as anything unsafe can be drawn
    bound: float  # an upper bound on from_base that needs only n and the unsafe share


def divergence(rewards: Sequence[float], safe: Sequence[bool], n: int) -> Divergence:
    """The divergence of best-of-``n`` drawn from exactly this distribution of keys (every entry equally likely)."""
    unsafe = 1 - sum(safe) / len(safe)
    if unsafe == 1:
        return Divergence(math.nan, math.inf, math.nan)
    counts = Counter(reward for reward, ok in zip(rewards, safe, strict=True) if ok)
    returned = 1 - unsafe**n
    below, forward, backward = unsafe, 0.0, 0.0
    for reward in sorted(counts):
        share = counts[reward] / len(rewards)
        overseen = ((below + share) ** n - below**n) / returned
        if overseen > 0:
            forward += overseen * math.log(overseen / share)
        backward += share * math.log(share / overseen) if overseen > 0 else math.inf
        below += share
    return Divergence(max(forward, 0.0), math.inf if unsafe > 0 else max(backward, 0.0), kl_bound(n, unsafe))


def kl_bound(n: int, unsafe: float = 0.0) -> float:
    """log(n/z) + (n-1)(-u^n log u / z - 1/n), z = 1 - u^n; without anything unsafe log n - (n-1)/n. Equality for continuous R."""
    if unsafe == 0:
        return math.log(n) - (n - 1) / n
    if unsafe == 1:
        return math.nan
    returned = 1 - unsafe**n
    return math.log(n / returned) + (n - 1) * (-(unsafe**n) * math.log(unsafe) / returned - 1 / n)


def shown_kl(value: float) -> str:
    """A divergence as tables print it: infinite and undefined ones in words."""
    return "infinite" if math.isinf(value) else "undefined (nothing returned)" if math.isnan(value) else f"{value:.3f}"
