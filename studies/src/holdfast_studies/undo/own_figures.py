"""Figures of a study whose errors are the model's own: accuracy, undos and tokens of every arm, and what undo gains."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.stats import Estimate, Unknown, share_of_counts
from holdfast_studies.undo.own_traces import OwnTraces
from holdfast_studies.undo.retry import Retried, Try, retry
from holdfast_studies.undo.safety_gap import WITH_UNDO
from holdfast_studies.undo.safety_gap_verdict import Gain, Study, gain

TITLES = {
    "sft": "sft on traces",
    "masked_sft": "masked_sft on traces",
    "plain": "sft on the same answers",
    "own": "sft on own right answers",
    "random_undo": "undos at random right steps",
    "perturbed": "perturbed traces",
}
RETRYING = ("own", "plain", "untouched")
"""Models without undo, the first of which that was trained answers again in place of undo."""


Count = Callable[[Try], tuple[bool, bool]]
"""Is it a hit, and is it a case?"""


class Way(NamedTuple):
    """A way of training, over its seeds."""

    objective: str
    context: str

    @property
    def title(self) -> str:
        """The name in tables."""
        name = TITLES.get(self.objective, self.objective)
        return f"{name}, {self.context}" if self.objective in WITH_UNDO else name


class Pool(NamedTuple):
    """What sampling gave: counts over one part's requests."""

    requests: int
    attempts: int
    right: int
    always_right: int  # requests
    never_right: int
    usable: int  # requests with a right and a wrong attempt
    wrong: int  # attempts whose first wrong step was found
    at_first_step: int  # of these, wrong from the first step on
    never_lost: int  # attempts that could still have been put right when they ended
    mean_step: float | None  # the number of the first wrong step


def pool_of(traces: OwnTraces) -> Pool:
    """Counts over all requests."""
    pools, wrong = traces.attempts, [attempt for attempts in traces.attempts for attempt in attempts.wrong]
    return Pool(
        requests=len(pools),
        attempts=sum(pool.num for pool in pools),
        right=sum(len(pool.right) for pool in pools),
        always_right=sum(len(pool.right) == pool.num for pool in pools),
        never_right=sum(not pool.right for pool in pools),
        usable=len(traces.usable),
        wrong=len(wrong),
        at_first_step=sum(len(attempt.steps) == 1 for attempt in wrong),
        never_lost=sum(pool.num_never_lost for pool in pools),
        mean_step=statistics.fmean(len(attempt.steps) for attempt in wrong) if wrong else None,
    )


@dataclass(frozen=True)
class OwnFigures:
    """Questions asked of all trainings of a study."""

    study: Study

    @property
    def ways(self) -> list[Way]:
        """All ways, in the order in which they were run."""
        return list(dict.fromkeys(Way(result.arm.objective, result.arm.context) for result in self.study.results))

    def accuracy(self, way: Way, *, greedy: bool) -> Estimate:
        """The share of right answers. The interval is over requests, each with all its seeds and samples."""
        rows = self._greedy(way) if greedy else self._sampled(way)
        return gain(rows, [[0.0] * len(row) for row in rows]).difference

    def taken_back(self, way: Way) -> Estimate | Unknown:
        """The share of own errors, forced on the model, that were taken back."""
        return self.study.rate(lambda behaviour: (behaviour.corrected, behaviour.num), *way)

    def recovered(self, way: Way) -> Estimate | Unknown:
        """The share of forced errors after which the answer is right."""
        return self.study.rate(lambda behaviour: (behaviour.recovered, behaviour.num), *way)

    def undone(self, way: Way) -> Estimate | Unknown:
        """The share of sampled answers in which something was taken back."""
        return self._share(way, lambda answer: (answer.num_undos > 0, True))

    def wrong_without_undo(self, way: Way) -> Estimate | Unknown:
        """The share of wrong answers among the sampled answers without an undo."""
        return self._share(way, lambda answer: (not answer.num_undos and not answer.right, not answer.num_undos))

    def wrong_with_undo(self, way: Way) -> Estimate | Unknown:
        """The share of wrong answers among the sampled answers with an undo."""
        return self._share(way, lambda answer: (answer.num_undos > 0 and not answer.right, answer.num_undos > 0))

    def tokens(self, way: Way) -> float:
        """Tokens written per sampled answer, also those that were taken back."""
        return statistics.fmean(answer.num_tokens for answer in self._tries(way))

    def undo_tokens(self, way: Way) -> float:
        """Undos per sampled answer."""
        return statistics.fmean(answer.num_undos for answer in self._tries(way))

    def against(self, ours: Way, theirs: Way, *, greedy: bool) -> Gain:
        """How many points of accuracy the first way is ahead of the second, request by request, seeds paired."""
        mine, other = ((self._greedy if greedy else self._sampled)(way) for way in (ours, theirs))
        return gain(mine, other)

    def retrying(self) -> Way | None:
        """The way without undo whose model answers again; None where the study has none."""
        return next((way for name in RETRYING for way in self.ways if way.objective == name), None)

    def retries(self, ours: Way) -> list[Retried]:
        """For every seed, plain retry with as many tokens as this way has sampled; empty without a model that retries."""
        other = self.retrying()
        if other is None:
            return []
        spent = {result.arm.seed: budget_of(result.behaviour.tries) for result in self.study.of(*ours)}
        return [
            retry(result.behaviour.tries, spent[result.arm.seed], result.arm.seed) for result in self.study.of(*other)
        ]

    def against_retry(self, ours: Way, *, best: bool) -> Gain | None:
        """How many points undo is ahead of plain retry at equal tokens. ``best``: retry counts as right if any answer is."""
        retried = self.retries(ours)
        if not retried:
            return None
        return gain(self._sampled(ours), [outcome.any_right if best else outcome.chosen for outcome in retried])

    def row(self) -> dict[str, Any]:
        """It as a dict for JSON."""
        return {
            way.title: {
                "greedy": self.accuracy(way, greedy=True).value,
                "sampled": self.accuracy(way, greedy=False).value,
                "tokens": self.tokens(way),
                "undos": self.undo_tokens(way),
            }
            for way in self.ways
        }

    def _greedy(self, way: Way) -> list[list[float]]:
        return [[float(hit) for hit in result.behaviour.hits] for result in self.study.of(*way)]

    def _sampled(self, way: Way) -> list[list[float]]:
        return [
            [statistics.fmean(answer.right for answer in tries) for tries in result.behaviour.tries]
            for result in self.study.of(*way)
        ]

    def _tries(self, way: Way) -> Iterator[Try]:
        for result in self.study.of(*way):
            for tries in result.behaviour.tries:
                yield from tries

    def _share(self, way: Way, count: Count) -> Estimate | Unknown:
        """A share over all seeds and samples, which are repeats of the same requests."""
        counts = []
        for result in self.study.of(*way):
            for column in zip(*result.behaviour.tries, strict=True):
                pairs = [count(answer) for answer in column]
                counts.append((sum(hit for hit, _ in pairs), sum(case for _, case in pairs)))
        return share_of_counts(counts, "none seen")


def budget_of(tries: Sequence[Sequence[Try]]) -> int:
    """Tokens that one sampled answer to every request takes, on average over the samples."""
    return round(sum(statistics.fmean(answer.num_tokens for answer in request) for request in tries))
