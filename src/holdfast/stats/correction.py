"""A rate by a fallible judge, corrected by a few labels: mean(judge) + mean(label - judge) over the labelled cases."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from holdfast.config import InputError
from holdfast.stats.estimate import Estimate
from holdfast.stats.intervals import newcombe, newcombe_paired, student, wilson


def corrected_share(
    judged: Sequence[float], labelled: Sequence[tuple[float, float]], *, among: bool = True
) -> Estimate:
    """The share of true cases, by a judge for many and by labels for some.

    ``judged``: what the judge says of every case, 0 or 1, or a probability. ``labelled``: (judge, label) of the cases that were
    read, drawn at random. ``among``: these are part of ``judged``; False where they are other cases of the same kind.

    The value has no bias whatever the judge does, and its interval is narrower than that of the labels alone as far as the judge
    is right. The interval joins Wilson's for the judged share with that of the mean difference (Zou and Donner 2008).
    Value and ends are kept between 0 and 1.
    """
    if not judged or not labelled:
        raise InputError("a corrected share needs at least one judged and one labelled case")
    numbers = [*judged, *(number for pair in labelled for number in pair)]
    if not all(0 <= number <= 1 for number in numbers):
        raise InputError("a corrected share needs numbers from 0 to 1")
    rate, error = wilson(math.fsum(judged), len(judged)), _error(labelled)
    correlation = _correlation(labelled) * math.sqrt(min(1.0, len(labelled) / len(judged))) if among else 0.0
    negative = Estimate(-error.value, -error.high, -error.low, error.n)
    joined = newcombe(rate, negative, correlation=-correlation)
    value, low, high = (min(1.0, max(0.0, number)) for number in (joined.value, joined.low, joined.high))
    return Estimate(value, low, high, len(judged), f"corrected by {len(labelled)} labels")


def _error(labelled: Sequence[tuple[float, float]]) -> Estimate:
    """The mean of label - judge. Of yes and no the interval has a width even where the two never differ."""
    if all(number in (0, 1) for pair in labelled for number in pair):
        only_label = sum(label > judge for judge, label in labelled)
        only_judge = sum(label < judge for judge, label in labelled)
        return newcombe_paired(only_label, only_judge, len(labelled))
    mean = student([label - judge for judge, label in labelled])
    return mean if mean.has_interval else Estimate(mean.value, -1.0, 1.0)


def _correlation(labelled: Sequence[tuple[float, float]]) -> float:
    """The correlation of the judge with its error, below 0 for most judges; 0 where either never changes."""
    judge, error = [judge for judge, _ in labelled], [label - judge for judge, label in labelled]
    if len(set(judge)) < 2 or len(set(error)) < 2:
        return 0.0
    return statistics.correlation(judge, error)
