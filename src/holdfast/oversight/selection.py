"""Best-of-n with a safety bar ([001]): argmax R among the candidates with S = 1, or none."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.config import InputError
from holdfast.records import Verdict

Safety = bool | None | Verdict
"""S with or without its reason. None, and a verdict whose ``safe`` is None, never count as safe."""

EMPTY = "the answer is empty"
NEVER_CAME = "the answer never came"


class Selection(NamedTuple):
    """The candidate returned, or None: an abstention. ``reason`` says why either way."""

    index: int | None  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    reason: str


def select(
    candidates: Sequence[object],
    rewards: Sequence[float | None],
    safe: Sequence[Safety],
    *,
    judged: bool = True,
) -> Selection:
    """The safe candidate with the highest reward; the first of equals. A candidate without a reward cannot be returned.

    ``judged=False`` says that there is no judge: every candidate with a reward may be returned, and none is called safe.
    """
    eligible = _eligible(candidates, rewards, safe, judged)
    if not eligible:
        return Selection(None, _why_nobody(safe, judged))
    best = max(eligible, key=lambda index: (_number(rewards[index]), -index))
    counts = _counts(eligible, candidates, judged)
    return Selection(best, f"reward {_number(rewards[best]):.3g}, the best of {counts}{_outcome(safe[best])}")


def select_soft(
    candidates: Sequence[object],
    rewards: Sequence[float | None],
    safe: Sequence[Safety],
    *,
    temperature: float,
    seed: int = 0,
    judged: bool = True,
) -> Selection:
    """A safe candidate drawn with probability proportional to exp(R / temperature): less KL, less over-optimisation.

    Towards temperature 0 this is `select`; towards infinity it is filtering alone.
    """
    if not temperature > 0:
        raise InputError(
            f"soft selection: expected a temperature above 0, not {temperature}; select() is the limit at 0"
        )
    eligible = _eligible(candidates, rewards, safe, judged)
    if not eligible:
        return Selection(None, _why_nobody(safe, judged))
    best = max(_number(rewards[index]) for index in eligible)
    weights = [math.exp((_number(rewards[index]) - best) / temperature) for index in eligible]
    (drawn,) = random.Random(seed).choices(eligible, weights)
    counts = _counts(eligible, candidates, judged)
    return Selection(drawn, f"drawn at temperature {temperature:g} from {counts}{_outcome(safe[drawn])}")


def select_pessimistic(
    candidates: Sequence[object], estimates: Sequence[Sequence[float]], safe: Sequence[Safety], *, caution: float = 1.0
) -> Selection:
    """Several rewards per candidate (an ensemble, several judges): the highest mean minus ``caution`` standard deviations.

    A candidate that one reward loves and another does not is the usual victim of over-optimisation.
    """
    lower = [_mean(row) - caution * _deviation(row) if row else None for row in estimates]
    return select(candidates, lower, safe)


def is_safe(safety: Safety) -> bool:
    """Whether S = 1. Nothing less counts as safe."""
    return (safety.safe if isinstance(safety, Verdict) else safety) is True


def never_empty(texts: Sequence[str], verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, but for an empty text *missed* and not safe: it says nothing, so no judge can call it safe."""
    return [
        verdict if text.strip() else Verdict(None, None, EMPTY, verdict.judge, "missed")
        for text, verdict in zip(texts, verdicts, strict=True)
    ]


def _eligible(
    candidates: Sequence[object], rewards: Sequence[float | None], safe: Sequence[Safety], judged: bool
) -> list[int]:
    if not len(candidates) == len(rewards) == len(safe):
        raise InputError(
            f"select: {len(candidates)} candidates, {len(rewards)} rewards and {len(safe)} verdicts: expected as many of each"
        )
    known = [reward is not None and not math.isnan(reward) for reward in rewards]
    return [index for index in range(len(candidates)) if known[index] and (not judged or is_safe(safe[index]))]


def _number(reward: float | None) -> float:
    assert reward is not None
    return float(reward)


def _counts(eligible: Sequence[int], candidates: Sequence[object], judged: bool) -> str:
    return f"{len(eligible)} safe of {len(candidates)}" if judged else f"{len(candidates)}, not judged"


def _outcome(safety: Safety) -> str:
    outcome = safety.outcome if isinstance(safety, Verdict) else None
    return f"; outcome: {outcome}" if outcome else ""


def _why_nobody(safe: Sequence[Safety], judged: bool) -> str:
    """How many were unsafe and how many could not be judged, with the most common reason.

    Without a judge only candidates that never came, or have no reward, cannot be returned.
    """
    if not safe:
        return "abstained: there were no candidates"
    if not judged:
        lost = sum(isinstance(safety, Verdict) and safety.reason == NEVER_CAME for safety in safe)
        counts = ((lost, "never came"), (len(safe) - lost, "without a reward"))
        return f"abstained: of {len(safe)} candidates {', '.join(f'{num} {what}' for num, what in counts if num)}"
    verdicts = [safety.safe if isinstance(safety, Verdict) else safety for safety in safe]
    parts = [
        f"{number} {what}"
        for number, what in (
            (sum(verdict is False for verdict in verdicts), "unsafe"),
            (sum(verdict is None for verdict in verdicts), "not judged"),
            (sum(verdict is True for verdict in verdicts), "safe but without a reward"),
        )
        if number
    ]
    outcomes = Counter(safety.outcome for safety in safe if isinstance(safety, Verdict) and safety.outcome)
    by_outcome = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    reasons = Counter(safety.reason for safety in safe if isinstance(safety, Verdict) and safety.safe is not True)
    most = f" (most often: {reasons.most_common(1)[0][0]})" if reasons else ""
    return f"abstained: of {len(safe)} candidates {', '.join(parts)}{most}{f'; outcomes: {by_outcome}' if outcomes else ''}"


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _deviation(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
