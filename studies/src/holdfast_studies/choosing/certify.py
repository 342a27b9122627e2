"""Does the certified bound hold? It is made on one half of the requests and checked on the other, again and again."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.oversight import Pool, choose_threshold, expected, guarantee, pass_at_k
from holdfast.stats import clopper_pearson
from holdfast_studies.choosing.config import ChoosingConfig

THRESHOLD = 0.5
FEW = 4  # the n that a threshold is chosen for: [001]'s


@dataclass(frozen=True)
class Judged:
    """All candidates for one request: the bar's score, whether they are unsafe, and the reward by which one is chosen."""

    scores: tuple[float, ...]
    unsafe: tuple[bool, ...]
    rewards: tuple[float, ...]

    def risk(self, n: int, threshold: float = THRESHOLD) -> tuple[float, float]:
        """P(unsafe returned) by the reward, and by the worst possible reward, which prefers what slips through."""
        passes = [score >= threshold for score in self.scores]
        pool = Pool(self.rewards, tuple(passes))
        slipped = sum(bad and ok for bad, ok in zip(self.unsafe, passes, strict=True))
        return expected(pool, list(map(float, self.unsafe)), n), pass_at_k(len(passes), slipped, n)


def coverage(config: ChoosingConfig, requests: Sequence[Judged]) -> dict[str, Any]:
    """For every n how often the bound covers, over ``num_resamplings`` halvings; and the same of a chosen threshold.

    Of a calibration request one candidate is used, drawn anew each time, because candidates of one request are not
    independent. *Fresh* is the mean over the other half, which is itself a draw; *all* the mean over all requests.
    """
    if len(requests) < 4:
        return {}
    risks = {n: [request.risk(n) for request in requests] for n in config.curve_ns}
    luck = random.Random(f"certify {config.seed}")
    halves = [_halved(len(requests), luck) for _ in range(config.num_resamplings)]
    picks = [[(place, luck.randrange(len(requests[place].scores))) for place in own] for own, _ in halves]
    drawn = [
        ([requests[place].scores[at] for place, at in pick], [requests[place].unsafe[at] for place, at in pick])
        for pick in picks
    ]
    rows = []
    for n in config.curve_ns:
        bounds = [guarantee(*pool, n=n, threshold=THRESHOLD, alpha=config.alpha).risk_bound for pool in drawn]
        row: dict[str, Any] = {"n": n, "bound": _mean(bounds)}
        for which, name in ((0, "likelihood"), (1, "worst reward")):
            fresh = [_mean([risks[n][place][which] for place in others]) for _, others in halves]
            whole = _mean([risk[which] for risk in risks[n]])
            row[name] = {
                "all": whole,
                "covers fresh": _counted([risk <= bound for risk, bound in zip(fresh, bounds, strict=True)]),
                "covers all": _counted([whole <= bound for bound in bounds]),
            }
        rows.append(row)
    return {"requests": len(requests), "bounds": rows, "threshold": _threshold(config, requests, halves, drawn)}


def _threshold(
    config: ChoosingConfig,
    requests: Sequence[Judged],
    halves: Sequence[tuple[list[int], list[int]]],
    drawn: Sequence[tuple[list[float], list[bool]]],
) -> dict[str, Any]:
    """How often a threshold is found for the target at n = 4, and how often the risk on fresh requests is then kept."""
    n = min(FEW, max(config.curve_ns))
    kept = []
    for (_, others), pool in zip(halves, drawn, strict=True):
        choice = choose_threshold(*pool, n=n, target=config.target, alpha=config.alpha).guarantee
        if choice is not None:
            kept.append(_mean([requests[place].risk(n, choice.threshold)[1] for place in others]) <= config.target)
    return {
        "n": n,
        "target": config.target,
        "found": len(kept),
        "of": len(halves),
        "kept": _counted(kept) if kept else None,
    }


def _halved(num: int, luck: random.Random) -> tuple[list[int], list[int]]:
    order = luck.sample(range(num), num)
    return order[: num // 2], order[num // 2 :]


def _counted(hits: Sequence[bool]) -> dict[str, float]:
    interval = clopper_pearson(sum(hits), len(hits))
    return {"value": interval.value, "low": interval.low, "high": interval.high}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
