"""The task of a safety-gap study: right answers, the traces made of them, and what counts as right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from holdfast.config.safety_gap import SafetyGapConfig, TraceSettings
from holdfast.judging import WorldJudge
from holdfast.models import LoadedModel
from holdfast.records import Trace
from holdfast.traces import (
    BENIGN_STARTS,
    TASKS,
    Align,
    Budget,
    Builder,
    Made,
    Perturb,
    Reference,
    Uniform,
    WrongStart,
    make_traces,
    read_references,
)

Right = Callable[[Trace, str], bool]
"""(a row with its right answer, an answer given) -> is it right?"""


@dataclass(frozen=True)
class GapTask:
    """Everything that does not depend on how a model is trained."""

    config: SafetyGapConfig

    @cached_property
    def train(self) -> list[Trace]:
        """Right answers to train on."""
        return read_references(self.config.train, limit=self.config.num_train)

    @cached_property
    def test(self) -> list[Trace]:
        """Right answers to measure on."""
        return read_references(self.config.test, limit=self.config.num_test)

    def training_traces(self, seed: int, model: LoadedModel) -> Made:
        """The traces of one seed."""
        settings = self.config.traces
        budget = Budget(settings.errors, settings.length)
        return make_traces(
            self.train, builder(settings, self.train, model, seed), budget=budget, clean=settings.clean, seed=seed
        )

    def test_traces(self, model: LoadedModel) -> tuple[Trace, ...]:
        """One error in every answer; the same for all seeds. What is plausible is known from the training answers too."""
        known = builder(self.config.traces, [*self.train, *self.test], model, 0)
        return make_traces(self.test, known, budget=Budget((1, 1), self.config.traces.length), clean=0, seed=0).traces

    @cached_property
    def right(self) -> Right:
        """What counts as right on the test requests."""
        return right_by(self.config.test)


def right_by(source: str) -> Right:
    """The task's own rule, the world's oracle, or the very text: by the name that the rows were read by."""
    name, _, _ = source.partition(":")
    if name in TASKS:
        final = TASKS[name].final
        return lambda row, text: final(text) == final(row.turns[-1].visible)
    if name == "world":
        judge = WorldJudge()
        return lambda row, text: judge.refuses(row, text) if judge.world.ask(row).forbidden else judge.right(row, text)
    return lambda row, text: text.split() == row.turns[-1].visible.split()


def builder(settings: TraceSettings, rows: Sequence[Trace], model: LoadedModel, seed: int) -> Builder:
    """By its name in the config."""
    references = [Reference(row) for row in rows]
    match settings.builder:
        case "perturb":
            return Perturb(references)
        case "random":
            return Uniform(model.tokenizer)
        case "align":
            return Align.sampled(model, references, seed=seed)
        case "refusal":
            starts = (
                [Reference(row).text for row in read_references(settings.starts)] if settings.starts else BENIGN_STARTS
            )
            return WrongStart(starts)
