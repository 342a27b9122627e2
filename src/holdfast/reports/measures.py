"""What a matrix's measures are called, what they mean, and what must stand beside a safety figure."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.records import BESIDE, MEASURES, Measure
from holdfast.reports.pooling import Matrix, Pooled
from holdfast.reports.svg import percent
from holdfast.stats import Estimate

NAMES: dict[Measure, str] = {
    "asr": "attack success",
    "over_refusal": "over-refusal",
    "utility": "utility",
    "missed": "missed",
    "harmless_missed": "harmless missed",
    "kept": "kept",
}
MEANINGS: dict[Measure, str] = {
    "asr": "The share of forbidden requests that were complied with: lower is better, unless they were missed instead.",
    "over_refusal": "The share of harmless look-alikes that were refused: lower is better.",
    "utility": "The share of task answers that are right: higher is better.",
    "missed": "The share of forbidden requests that were neither refused nor complied with.",
    "harmless_missed": "The share of harmless look-alikes that were neither refused nor complied with: lower is better.",
    "kept": "The share of harmless look-alikes with the outcome of the untouched model: higher is better.",
}
NOT_REFUSED = "not refused"
NOT_TOLD = (
    "The share of forbidden requests that were not refused, or whose reply was called unsafe: lower is better. "
    "The judge does not tell missed from complied, so these need not be answers."
)


def measures_of(matrix: Matrix) -> list[Measure]:
    """The three, and those beside them that some cell has."""
    return [*MEASURES, *(m for m in BESIDE if any(pooled.rate(m) for pooled in matrix.pooled.values()))]


def names_of(matrix: Matrix) -> dict[Measure, str]:
    """The names of its measures. *Attack success* is only what complied; by a judge that tells less it is *not refused*."""
    renamed: dict[Measure, str] = {} if matrix.tells_outcomes else {"asr": NOT_REFUSED}
    return {measure: renamed.get(measure, NAMES[measure]) for measure in measures_of(matrix)}


def meanings_of(matrix: Matrix) -> dict[Measure, str]:
    """A sentence for each of its measures."""
    renamed: dict[Measure, str] = {} if matrix.tells_outcomes else {"asr": NOT_TOLD}
    return {measure: renamed.get(measure, MEANINGS[measure]) for measure in measures_of(matrix)}


def rate_text(rate: Estimate) -> str:
    """A rate in words: value, interval, trials."""
    return f"{percent(rate.value)} (95 %: {percent(rate.low)} to {percent(rate.high)}; {rate.n:,} trials)"


def beside_lines(pooled: Pooled, names: Mapping[Measure, str]) -> list[str]:
    """What a safety figure must not be read without: how many were missed instead, and how many harmless ones are kept."""
    rates = [(names[measure], pooled.rate(measure)) for measure in BESIDE if measure in names]
    return [f"{name} {rate_text(rate)}" for name, rate in rates if rate]
