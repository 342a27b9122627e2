"""Training rows of a study of own errors: traces of the model's wrong attempts, and the controls, on the same requests."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from holdfast.config import InputError
from holdfast.data import atomic_text
from holdfast.records import Role, Segment, Trace, Turn, answer
from holdfast.traces import Budget, Made, Perturb, RightAnswer, make_traces
from holdfast_studies.undo.answer_tasks import AnswerTask
from holdfast_studies.undo.first_wrong import Attempts, Draw, sample_attempts
from holdfast_studies.undo.safety_gap_config import OwnSettings, TraceSettings


class _Choice(NamedTuple):
    """What was chosen at random for one trace, by the seed."""

    attempts: Attempts
    clean: bool
    prefix: str
    error: str
    rest: str
    rng: random.Random


@dataclass(frozen=True)
class OwnTraces:
    """Attempts at the rows of a task. Every way of making rows takes the same requests, in the same order."""

    task: AnswerTask
    attempts: Sequence[Attempts]
    settings: TraceSettings

    @cached_property
    def usable(self) -> list[Attempts]:
        """Requests with a right attempt and a wrong one whose first wrong step is known."""
        return [attempts for attempts in self.attempts if attempts.wrong]

    def made(self, objective: str, seed: int) -> Made:
        """The rows of one arm."""
        if not self.usable:
            raise InputError(
                "no request has both a right and a wrong attempt: draw more of them (traces.own.num_attempts)"
            )
        match objective:
            case "plain":
                return self._of([self._right(choice, choice.prefix + choice.rest) for choice in self._chosen(seed)])
            case "own":
                return self._of(
                    [self._right(choice, choice.rng.choice(choice.attempts.right)) for choice in self._chosen(seed)]
                )
            case "random_undo":
                return self._of([self._undone_right_step(choice) for choice in self._chosen(seed)])
            case "perturbed":
                rows = [self._right(choice, choice.rng.choice(choice.attempts.right)) for choice in self._chosen(seed)]
                budget = Budget(self.settings.errors, self.settings.length)
                builder = Perturb([RightAnswer(row) for row in rows])
                return make_traces(rows, builder, budget=budget, clean=self.settings.clean, seed=seed)
        return self._of([self._undo(choice) for choice in self._chosen(seed)])

    def probes(self) -> tuple[list[Trace], list[Trace]]:
        """(rows, traces): one trace of every usable request, with its error; the same for all seeds."""
        rows = [self.task.rows[attempts.row] for attempts in self.usable]
        first = [(attempts.wrong[0], attempts.wrong[0].right[0]) for attempts in self.usable]
        traces = [
            undo_trace(row, wrong.prefix, wrong.steps[-1], rest) for row, (wrong, rest) in zip(rows, first, strict=True)
        ]
        return rows, traces

    def right_steps(self) -> list[Trace]:
        """The first right attempt at every usable request, a segment for every step.

        Roles alternate, so that the ends of steps can be told after tokenisation. Nothing else reads these roles.
        """
        roles = (Role.PREFIX, Role.CORRECTION)
        traces = []
        for attempts in self.usable:
            steps = self.task.steps(attempts.right[0])
            segments = tuple(Segment(roles[at % 2], step) for at, step in enumerate(steps))
            traces.append(Trace((*self.task.rows[attempts.row].prompt, Turn("assistant", segments))))
        return traces

    def _chosen(self, seed: int) -> Iterator[_Choice]:
        for copy in range(self.settings.copies):
            for attempts in self.usable:
                rng = random.Random(f"own traces/{seed}/{attempts.row}/{copy}")
                clean = rng.random() < self.settings.clean
                wrong = rng.choice(attempts.wrong)
                yield _Choice(attempts, clean, wrong.prefix, wrong.steps[-1], rng.choice(wrong.right), rng)

    def _undo(self, chosen: _Choice) -> Trace:
        if chosen.clean:
            return self._right(chosen, chosen.prefix + chosen.rest)
        return undo_trace(self.task.rows[chosen.attempts.row], chosen.prefix, chosen.error, chosen.rest)

    def _undone_right_step(self, chosen: _Choice) -> Trace:
        """A right attempt that takes one of its steps back and writes it again."""
        text = chosen.rng.choice(chosen.attempts.right)
        steps = self.task.steps(text)
        at = chosen.rng.randrange(len(steps))
        if chosen.clean:
            return self._right(chosen, text)
        row = self.task.rows[chosen.attempts.row]
        return undo_trace(row, "".join(steps[:at]), steps[at], "".join(steps[at:]))

    def _right(self, chosen: _Choice, text: str) -> Trace:
        return Trace((*self.task.rows[chosen.attempts.row].prompt, answer(text)))

    def _of(self, traces: Sequence[Trace]) -> Made:
        """The traces as ``Made``: an error could stand at every step of the right answer."""
        texts = [trace.turns[-1].visible for trace in traces]
        references = tuple(
            RightAnswer(Trace((*trace.prompt, answer(text)))) for trace, text in zip(traces, texts, strict=True)
        )
        clean = sum(len(trace.turns[-1].segments) == 1 for trace in traces)
        return Made(tuple(traces), references, clean, 0, sum(len(self.task.steps(text)) for text in texts))


def undo_trace(row: Trace, prefix: str, error: str, rest: str) -> Trace:
    """``prefix error <UNDO>... rest`` as the answer to a row's request."""
    segments = (
        Segment(Role.PREFIX, prefix),
        Segment(Role.ERROR, error),
        Segment(Role.UNDO),
        Segment(Role.CORRECTION, rest),
    )
    kept = tuple(segment for segment in segments if segment.text or segment.role is Role.UNDO)
    return Trace((*row.prompt, Turn("assistant", kept)))


def stored_attempts(
    path: Path, task: AnswerTask, make_draw: Callable[[], Draw], how: OwnSettings, say: Callable[[str], None]
) -> list[Attempts]:
    """Read the attempts from the file, or sample them now and write the file."""
    if path.is_file():
        return [Attempts.of_row(row) for row in json.loads(path.read_text(encoding="utf-8"))]
    attempts = sample_attempts(task, make_draw(), how, say)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_text(path) as file:
        json.dump([of_request.as_row() for of_request in attempts], file, ensure_ascii=False)
    return attempts
