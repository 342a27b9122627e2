"""Shares with Wilson's interval, also where several seeds asked the same requests."""

from __future__ import annotations

import math
from collections.abc import Sequence

from holdfast.records.matrix import Cell, Measure, Rate

Z = 1.959963984540054  # the two-sided 95 % quantile of the normal


def wilson(hits: float, trials: float, z: float = Z) -> Rate:
    """The share of hits with its Wilson score interval.

    ``hits`` may be a sum of scores in [0, 1] rather than a count; the interval is then too wide rather than too
    narrow, since p(1 - p) is the largest variance such scores can have.
    """
    assert trials > 0, trials
    assert 0 <= hits <= trials * (1 + 1e-9), (hits, trials)
    if abs(hits - round(hits)) < 1e-6 * trials:  # a rate read back from a file: 0.1 * 30 is not quite 3
        hits = round(hits)
    share, spread = hits / trials, z * z / trials
    centre = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / trials + spread / trials / 4) / (1 + spread)
    low, high = max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))
    return Rate(share, low, high, round(hits), round(trials))


def asked_again(seeds: Sequence[str]) -> Rate:
    """One string of digits per seed, a place in it the same request in all: pooled, but a request counts once.

    Wilson's interval on the effective number of trials, p (1 - p) / Var(mean over requests): as many as there are requests
    where the seeds agree about every one, and never more than there are answers. For that number two requests are added on
    which all seeds agree, one either way: a single hit in one seed of three would else pass for proof that seeds differ.
    """
    by_request = [places.count("1") / len(seeds) for places in zip(*seeds, strict=True)]
    hits, trials = sum(seed.count("1") for seed in seeds), len(seeds) * len(by_request)
    padded = [*by_request, 0.0, 1.0]
    mean = math.fsum(padded) / len(padded)
    effective = mean * (1 - mean) * len(padded) ** 2 / math.fsum((each - mean) ** 2 for each in padded) - 2
    counted = min(effective, trials)
    found = wilson(hits / trials * counted, counted)
    return Rate(hits / trials, found.low, found.high, hits, trials)


def pooled_cells(cells: Sequence[Cell], measure: Measure) -> Rate | None:
    """One attack on one defence, all seeds that have the figure together; None where none has."""
    found = [(cell, rate) for cell in cells if (rate := getattr(cell, measure)) is not None]
    if not found:
        return None
    digits = [cell.outcomes.get(measure, "") for cell, _ in found]
    sizes = {len(each) for each in digits} | {rate.trials for _, rate in found}
    if len(sizes) == 1 and all(cell.asks_again for cell, _ in found):
        return asked_again(digits)
    return wilson(sum(rate.value * rate.trials for _, rate in found), sum(rate.trials for _, rate in found))
