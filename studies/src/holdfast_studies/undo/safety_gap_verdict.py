"""Verdicts from curves: does each part of [000]'s theorem hold here, and from which step on? And were the goals met?"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from holdfast.stats import Estimate, Resamples, Unknown, share_of_counts
from holdfast_studies.undo.safety_gap import ArmResult
from holdfast_studies.undo.safety_gap_behaviour import Behaviour

ARMS = ("sft", "masked_sft")
EQUAL = 0.05  # two probabilities this close count as learned equally well
CLAIMS = {
    "log_p_error": "(c) sft makes errors likelier than masked_sft does",
    "p_undo": "(a) both learn to undo equally well",
    "p_correction": "(a) both learn to correct equally well",
}


class Band(NamedTuple):
    """A reading over the seeds of one way of training: mean, least and greatest."""

    mean: float
    low: float
    high: float


class CurveVerdict(NamedTuple):
    """What is said about one curve in one context."""

    curve: str
    context: str
    sentence: str


class Goal(NamedTuple):
    """What was wanted, what came out, and whether that is enough."""

    wanted: str
    measured: str
    met: bool


class Gain(NamedTuple):
    """A difference of two shares, and the smallest one that the test would detect four times out of five (at 5 %)."""

    difference: Estimate
    visible: float

    @property
    def met(self) -> bool:
        """Whether the first is as accurate as the second, or more."""
        return self.difference.value >= 0


def gain(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> Gain:
    """The mean of ours - theirs, from [seed][request] hits or shares of hits on the same requests.

    Requests are resampled, each with all its seeds.
    """
    gaps = np.asarray(ours, float) - np.asarray(theirs, float)
    drawn = Resamples.of(gaps.mean(0), draws=4000)
    values = drawn.sums[:, 0] / drawn.n
    estimate = drawn.estimate(lambda sums: sums[..., 0] / drawn.n)
    exact = float(gaps.mean())  # of whole numbers: no rounding may make a tie a loss
    return Gain(replace(estimate, value=exact), float((1.96 + 0.84) * values.std()))


@dataclass(frozen=True)
class Study:
    """All trainings of a study, with the questions that are asked of them."""

    results: Sequence[ArmResult]

    @property
    def contexts(self) -> list[str]:
        """The contexts, in the order in which they were run."""
        return list(dict.fromkeys(result.arm.context for result in self.results if result.arm.objective in ARMS))

    @property
    def objectives(self) -> list[str]:
        """Those of sft and masked_sft that were trained."""
        return [arm for arm in ARMS if any(result.arm.objective == arm for result in self.results)]

    @property
    def init(self) -> str:
        """The initialisation of all comparisons, except those between initialisations."""
        return self.results[0].arm.init

    @property
    def inits(self) -> list[str]:
        """All initialisations that were tried."""
        return list(dict.fromkeys(result.arm.init for result in self.results))

    def of(self, objective: str, context: str, init: str | None = None) -> list[ArmResult]:
        """The seeds of one way of training."""
        wanted = (objective, context, init or self.init)
        return [
            result for result in self.results if (result.arm.objective, result.arm.context, result.arm.init) == wanted
        ]

    def band(self, name: str, step: int, *arm: str) -> Band:
        """A reading at a step, over seeds."""
        values = [getattr(result.curve[step], name) for result in self.of(*arm)]
        return Band(statistics.fmean(values), min(values), max(values))

    def steps(self) -> list[int]:
        """The steps at which all trainings were measured."""
        trained = [set(result.curve) for result in self.results if result.arm.objective != "untouched"]
        return sorted(set.intersection(*trained))

    def rate(self, count: Callable[[Behaviour], tuple[int, int]], *arm: str) -> Estimate | Unknown:
        """A share of hits, seeds pooled."""
        return share_of_counts([count(result.behaviour) for result in self.of(*arm)], "none seen")

    def against_plain(self, objective: str, context: str) -> Gain:
        """Accuracy with undo minus that of plain sft, on the same requests, seed by seed."""
        plain = {result.arm.seed: result.behaviour.hits for result in self.of("plain", "soft")}
        pairs = [(result.behaviour.hits, plain[result.arm.seed]) for result in self.of(objective, context)]
        return gain([undo for undo, _ in pairs], [without for _, without in pairs])

    def verdicts(self) -> list[CurveVerdict]:
        """One sentence per curve and context; none where only one objective was trained."""
        if len(self.objectives) < len(ARMS):
            return []
        return [
            CurveVerdict(name, context, self._gap(context) if name == "log_p_error" else self._equal(name, context))
            for context in self.contexts
            for name in CLAIMS
        ]

    def _gap(self, context: str) -> str:
        """A sentence. The claim holds where every seed of sft lies above every seed of masked_sft."""
        steps = [step for step in self.steps() if step]
        bands = [[self.band("log_p_error", step, arm, context) for arm in ARMS] for step in steps]
        apart = [sft.low > masked.high for sft, masked in bands]
        sft, masked = bands[-1]
        by = f"by {sft.mean - masked.mean:.2f} nats at the end"
        if not apart[-1]:
            return (
                f"does not hold: masked_sft is above, {by}"
                if masked.low > sft.high
                else f"does not hold: bands overlap, {by}"
            )
        start = next(steps[i] for i in range(len(steps)) if all(apart[i:]))
        return f"holds {'at every step measured' if start == steps[0] else f'from step {start} on'}, {by}"

    def _equal(self, name: str, context: str) -> str:
        gaps = {}
        for step in self.steps():
            sft, masked = (self.band(name, step, arm, context).mean for arm in ARMS)
            gaps[step] = sft - masked
        widest, last = max(gaps, key=lambda step: abs(gaps[step])), gaps[max(gaps)]
        kept = abs(last) <= EQUAL
        where = f"{last:+.3f} (sft - masked_sft) at the end, at most {gaps[widest]:+.3f} at step {widest}"
        return f"{'holds' if kept else 'does not hold'}: {where}"

    def goals(self) -> list[Goal]:
        """The goals that were set for the embedded world, and for accuracy, before any of it was run."""
        if len(self.objectives) < len(ARMS):
            return []
        goals = [goal for context in self.contexts for goal in self._goals_of(context)]
        if {"soft", "hard"} <= set(self.contexts):
            for arm in ARMS:
                soft, hard = (self.rate(corrected, arm, context).value or 0 for context in ("soft", "hard"))
                wanted = f"{arm}: hard context corrects at least as often as soft"
                goals.append(Goal(wanted, f"{hard:.3f} against {soft:.3f}", hard >= soft))
        return goals

    def _goals_of(self, context: str) -> Iterator[Goal]:
        before = self.band("p_wrong", 0, "masked_sft", context).mean
        sft, masked = (self.band("p_wrong", self.steps()[-1], arm, context).mean for arm in ARMS)
        measured = f"{masked:.4f} / {before:.4f} = {masked / before:.2f}"
        wanted = f"{context}: masked_sft's p(wrong) at most 1.1 x the untrained model's"
        yield Goal(wanted, measured, masked <= 1.1 * before)
        rho = statistics.fmean(result.error_rate for result in self.of("sft", context))
        wanted = f"{context}: sft's p(wrong) at least half the error rate of the traces"
        yield Goal(wanted, f"{sft:.3f} / {rho:.3f} = {sft / rho:.2f}", sft >= rho / 2)
        for arm in ARMS:
            fixed = self.rate(corrected, arm, context)
            yield Goal(
                f"{context}: {arm} corrects forced errors, at least 95 %", str(fixed), (fixed.value or 0) >= 0.95
            )
        errors = [self.rate(with_error, arm, context) for arm in ARMS]
        none, at_most = not errors[1].value, errors[1].high or 1.0  # where none was seen, the most that there may be
        ratio = (errors[0].value or 0) / (at_most if none else errors[1].value or at_most)
        wanted = f"{context}: masked_sft writes errors at least 3 x more rarely than sft"
        yield Goal(wanted, f"{errors[0]} against {errors[1]}: {'over ' * none}{ratio:.1f} x", ratio >= 3)
        if self.of("plain", "soft"):
            gained = self.against_plain("masked_sft", context)
            wanted = f"{context}: masked_sft with undo is right at least as often as plain sft on the same answers"
            yield Goal(wanted, f"{gained.difference}; could have seen {gained.visible:.3f}", gained.met)


def corrected(behaviour: Behaviour) -> tuple[int, int]:
    """(hits, trials) of forced errors that were taken back and put right."""
    return behaviour.corrected, behaviour.num


def with_error(behaviour: Behaviour) -> tuple[int, int]:
    """(hits, trials) of sampled answers in which a wrong token was written at any time."""
    return behaviour.sampled.answers_with_error, behaviour.sampled.answers


def right(behaviour: Behaviour) -> tuple[int, int]:
    """(hits, trials) of greedy answers that are right."""
    return behaviour.right, behaviour.num
