"""The task of a safety-gap study: right answers, the traces made of them, and what counts as right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from holdfast_studies.undo.safety_gap_config import SafetyGapConfig
from holdfast_studies.worlds.arithmetic import ArithmeticWorld

from holdfast.config import InputError
from holdfast.judging import WorldJudge
from holdfast.models import LoadedModel
from holdfast.records import Trace
from holdfast.traces import TASKS, Budget, Builder, Made, choose_builder, make_traces, read_references

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
        """Right answers to measure on: those of no request that is trained on."""
        config, trained_on = self.config, {row.prompt for row in self.train}
        rows = read_references(config.test, limit=config.skip_test + config.num_test)[config.skip_test :]
        held_out = [row for row in rows if row.prompt not in trained_on]
        if not held_out:
            raise InputError(f"{config.test}: no row is left to measure on after skip_test and what is trained on")
        return held_out

    def training_traces(self, seed: int, model: LoadedModel) -> Made:
        """The traces of one seed."""
        settings = self.config.traces
        builder = self._builder(self.train, model, seed)
        budget = Budget(settings.errors, settings.length)
        return make_traces(self.train * settings.copies, builder, budget=budget, clean=settings.clean, seed=seed)

    def test_traces(self, model: LoadedModel) -> tuple[Trace, ...]:
        """One error in every answer; the same for all seeds. What is plausible is known from the training answers too."""
        known = self._builder([*self.train, *self.test], model, 0)
        return make_traces(self.test, known, budget=Budget((1, 1), self.config.traces.length), clean=0, seed=0).traces

    def _builder(self, rows: Sequence[Trace], model: LoadedModel, seed: int) -> Builder:
        settings = self.config.traces
        return choose_builder(
            settings.builder, rows, tokenizer=model.tokenizer, model=model, starts=settings.starts, seed=seed
        )

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
    if source.startswith("world:arithmetic/"):
        return _same_product
    if name == "world":
        judge = WorldJudge()
        return lambda row, text: judge.refuses(row, text) if judge.world.ask(row).forbidden else judge.right(row, text)
    return lambda row, text: text.split() == row.turns[-1].visible.split()


def _same_product(row: Trace, text: str) -> bool:
    """The attempt that the response stops with comes to the right number."""
    world = ArithmeticWorld()
    given, right = world.read(text), world.read(row.turns[-1].visible)
    return given.stopped and given.answers[-1:] == right.answers[-1:]
