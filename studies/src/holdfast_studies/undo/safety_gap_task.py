"""The task of a safety-gap study: right answers, the traces made of them, and what counts as right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

from holdfast.config import InputError
from holdfast.judging import WorldJudge
from holdfast.models import LoadedModel, load
from holdfast.records import Trace
from holdfast.traces import TASKS, Budget, Builder, Made, choose_builder, make_traces, read_references
from holdfast_studies.undo.answer_tasks import AnswerTask, Right, answer_task
from holdfast_studies.undo.draws import Draws
from holdfast_studies.undo.own_traces import OwnTraces, stored_attempts
from holdfast_studies.undo.safety_gap_config import OwnSettings, SafetyGapConfig
from holdfast_studies.worlds.arithmetic import ArithmeticWorld

Part = Literal["train", "test"]


@dataclass(frozen=True)
class GapTask:
    """What a study trains and measures on; nothing here depends on how a model is trained."""

    config: SafetyGapConfig

    @property
    def is_own(self) -> bool:
        """Whether errors are the model's own wrong steps."""
        return self.config.traces.builder == "own"

    @cached_property
    def train(self) -> list[Trace]:
        """Right answers to train on. Where errors are the model's own, only the requests are used."""
        if self.is_own:
            return list(self.answer_tasks["train"].rows[: self.config.num_train])
        return read_references(self.config.train, limit=self.config.num_train)

    @cached_property
    def test(self) -> list[Trace]:
        """Right answers to measure on; none has a request that is trained on."""
        config, trained_on = self.config, {row.prompt for row in self.train}
        end = config.skip_test + config.num_test
        known = self.answer_tasks["test"].rows if self.is_own else read_references(config.test, limit=end)
        rows = known[config.skip_test : end]
        held_out = [row for row in rows if row.prompt not in trained_on]
        if not held_out:
            raise InputError(f"{config.test}: no row is left to measure on after skip_test and what is trained on")
        return held_out

    @cached_property
    def answer_tasks(self) -> dict[Part, AnswerTask]:
        """All rows of both files, with their grading."""
        same = self.config.train == self.config.test
        train = answer_task(self.config.train, right_by(self.config.train))
        return {"train": train, "test": train if same else answer_task(self.config.test, right_by(self.config.test))}

    def own(self, part: Part, say: Callable[[str], None] = lambda _: None) -> OwnTraces:
        """The model's attempts at the requests of one part: from the study's folder, or sampled now."""
        if part not in self._owned:
            rows = self.train if part == "train" else self.test
            task = replace(self.answer_tasks[part], rows=tuple(rows))
            path = Path(self.config.run) / "own" / f"{part}.json"
            attempts = stored_attempts(path, task, partial(self._draws, part), self.followed(part), say)
            self._owned[part] = OwnTraces(task, attempts, self.config.traces)
        return self._owned[part]

    def followed(self, part: Part) -> OwnSettings:
        """How attempts are drawn and followed. Of a test request only one wrong attempt is followed: no more are measured."""
        how = self.config.traces.own
        return how.model_copy(update={"num_wrong": 1}) if part == "test" else how

    @cached_property
    def _owned(self) -> dict[Part, OwnTraces]:
        return {}

    @property
    def probed(self) -> list[Trace]:
        """The test rows that ``test_traces`` are made of, in their order."""
        return self.own("test").probes()[0] if self.is_own else self.test

    def untouched(self) -> LoadedModel:
        """The model as it was. Its vocabulary has no <UNDO>, so it cannot write one."""
        model = self.config.model
        dtype = self.config.eval_dtype or model.dtype
        return load(model.name, dtype=dtype, device=model.device, attention=model.attention)

    def _draws(self, part: Part) -> Draws:
        config, how = self.config, self.config.traces.own
        return Draws(
            self.untouched(),
            Path(config.run) / "own" / f"{part}.draws.jsonl",
            max_new_tokens=config.max_new_tokens,
            temperature=how.temperature,
            batch_size=how.batch_size,
        )

    def training_traces(self, seed: int, model: LoadedModel, objective: str = "masked_sft") -> Made:
        """The traces of one seed. They depend on the arm's objective only where errors are the model's own."""
        settings = self.config.traces
        if self.is_own:
            return self.own("train").made(objective, seed)
        builder = self._builder(self.train, model, seed)
        budget = Budget(settings.errors, settings.length)
        return make_traces(self.train * settings.copies, builder, budget=budget, clean=settings.clean, seed=seed)

    def test_traces(self, model: LoadedModel) -> tuple[Trace, ...]:
        """Traces with one error in every answer, the same for all seeds. Training answers too show which errors are plausible."""
        if self.is_own:
            return tuple(self.own("test").probes()[1])
        known = self._builder([*self.train, *self.test], model, 0)
        return make_traces(self.test, known, budget=Budget((1, 1), self.config.traces.length), clean=0, seed=0).traces

    def _builder(self, rows: Sequence[Trace], model: LoadedModel, seed: int) -> Builder:
        settings = self.config.traces
        assert settings.builder != "own", "own traces are made from attempts"
        return choose_builder(
            settings.builder, rows, tokenizer=model.tokenizer, model=model, starts=settings.starts, seed=seed
        )

    @cached_property
    def right(self) -> Right:
        """What counts as right on the test requests."""
        return self.answer_tasks["test"].right if self.is_own else right_by(self.config.test)


def right_by(source: str) -> Right:
    """How answers to rows of this source are graded: by the task's own rule, the world's oracle, or the exact text."""
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
    """Whether the attempt that the response stops with has the right number."""
    world = ArithmeticWorld()
    given, right = world.read(text), world.read(row.turns[-1].visible)
    return given.stopped and given.answers[-1:] == right.answers[-1:]
