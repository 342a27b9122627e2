"""A dataset of right answers becomes a dataset of backtrack traces."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.config import InputError
from holdfast.data import write_traces
from holdfast.records import Role, Trace
from holdfast.traces.errors import Budget, Builder, RightAnswer, with_errors


@dataclass(frozen=True)
class Made:
    """Traces in the order of their references, and what became of these."""

    traces: tuple[Trace, ...]
    references: tuple[RightAnswer, ...]
    num_kept_clean: int  # on purpose
    num_without_place: int  # no error was found for them: clean too
    num_places: int = 0  # where errors could have been written, over all answers

    @property
    def num_errors(self) -> int:
        """Wrong spans in all traces."""
        return sum(segment.role is Role.ERROR for trace in self.traces for segment in trace.turns[-1].segments)

    @property
    def error_rate(self) -> float:
        """The share of possible places that carry an error: the rho of MATH §4."""
        return self.num_errors / self.num_places

    @property
    def sentence(self) -> str:
        """For the user, in one line."""
        clean = self.num_kept_clean + self.num_without_place
        text = f"{len(self.traces)} traces: {self.num_errors} errors in {len(self.traces) - clean} answers"
        text += f", {self.num_kept_clean} answers kept clean"
        return text + (f", {self.num_without_place} without a place for an error" if self.num_without_place else "")


def make_traces(
    rows: Sequence[Trace], builder: Builder, *, budget: Budget | None = None, clean: float = 0.2, seed: int = 0
) -> Made:
    """One trace per row. A share ``clean`` of the answers is left as it is; the seed decides everything that is drawn."""
    if not 0 <= clean < 1:
        raise InputError(f"clean: expected a share from 0 up to, not including, 1; not {clean}")
    budget = budget or Budget()
    references = tuple(RightAnswer(row) for row in rows)
    traces, kept, without = [], 0, 0
    for number, reference in enumerate(references):
        rng = random.Random(f"traces/{seed}/{number}")
        keep = rng.random() < clean
        errors = [] if keep else builder(reference, budget, rng)
        kept, without = kept + keep, without + (not keep and not errors)
        traces.append(with_errors(reference, errors))
    num_places = sum(len(builder.places(reference)) for reference in references)
    return Made(tuple(traces), references, kept, without, num_places)


def write_made(path: str | Path, made: Made) -> None:
    """Write the traces, after checking that each of them, once undone, equals its reference."""
    for number, (trace, reference) in enumerate(zip(made.traces, made.references, strict=True)):
        if trace.turns[-1].visible != reference.text or trace.prompt != with_errors(reference, []).prompt:
            raise AssertionError(f"trace {number}: undone, it is not its reference")
    write_traces(path, made.traces)
