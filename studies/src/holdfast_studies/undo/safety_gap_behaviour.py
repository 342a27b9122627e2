"""What a trained model does: after an error that was forced on it, and when it writes freely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.generation import UndoDecoding, UndoUse, generate, generate_with_undo, total, undo_use
from holdfast.models import LoadedModel
from holdfast.records import Completion, Trace
from holdfast.tokens import apply_undo
from holdfast_studies.undo.retry import Try
from holdfast_studies.undo.safety_gap_probe import Probe

if TYPE_CHECKING:
    from holdfast_studies.undo.safety_gap_task import GapTask


@dataclass(frozen=True)
class Behaviour:
    """Counts out of ``num`` held-out requests; ``sampled`` is at temperature 1, everything else greedy.

    Where errors are the model's own, ``num`` counts the requests that an error was forced on. ``hits``, ``greedy`` and
    ``tries`` are of all requests, and ``sampled`` is empty: there is no single right answer to compare tokens with.
    """

    num: int
    corrected: int  # the forced error was taken back and what stands in its place is right (own errors: was taken back)
    recovered: int  # and the whole answer is right
    hits: tuple[bool, ...]  # request by request: is the answer right that nothing was forced on?
    sampled_right: int
    sampled: UndoUse
    greedy: tuple[Try, ...] = ()
    tries: tuple[tuple[Try, ...], ...] = ()  # [request][sampled answer]

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> Behaviour:
        """Rebuild it from JSON."""
        (greedy,) = Try.of_rows([row.get("greedy", ())])
        tries = Try.of_rows(row.get("tries", ()))
        sampled = UndoUse(**row["sampled"])
        return cls(**{**row, "hits": tuple(row["hits"]), "sampled": sampled, "greedy": greedy, "tries": tries})

    @property
    def right(self) -> int:
        """The number of right answers on which no error was forced."""
        return sum(self.hits)


def behave(model: LoadedModel, probes: Sequence[Probe], task: GapTask, context: str, *, seed: int) -> Behaviour:
    """Decode with undo three times: after forced errors, greedily, and sampled."""
    rows = _asked(probes, task)

    def answers(temperature: float, begun: Sequence[Sequence[int]] | None = None) -> list[Completion]:
        how = UndoDecoding(task.config.max_new_tokens, context, temperature, seed=seed)  # type: ignore[arg-type]
        batch = task.config.eval_batch
        return generate_with_undo(model.model, model.tokenizer, rows, how, begun=begun, batch_size=batch)

    forced = answers(0.0, [probe.begun for probe in probes])
    sampled, greedy = answers(1.0), answers(0.0)
    uses = (
        undo_use(answer.token_ids, probe.right[:-1], probe.undo_id)
        for answer, probe in zip(sampled, probes, strict=True)
    )
    return Behaviour(
        num=len(rows),
        corrected=sum(_corrected(answer, probe) for answer, probe in zip(forced, probes, strict=True)),
        recovered=sum(_hits(forced, rows, task)),
        hits=_hits(greedy, rows, task),
        sampled_right=sum(_hits(sampled, rows, task)),
        sampled=total(uses),
    )


def behave_plainly(model: LoadedModel, probes: Sequence[Probe], task: GapTask, *, seed: int) -> Behaviour:
    """Measure a model without undo: its accuracy alone."""
    rows, config = _asked(probes, task), task.config

    def answers(temperature: float) -> list[Completion]:
        how: dict[str, Any] = {"max_new_tokens": config.max_new_tokens, "batch_size": config.eval_batch, "seed": seed}
        return generate(model.model, model.tokenizer, rows, temperature=temperature, **how)

    greedy, sampled = answers(0.0), answers(1.0)
    uses = (
        undo_use(answer.token_ids, probe.right[:-1], probe.undo_id)
        for answer, probe in zip(sampled, probes, strict=True)
    )
    return Behaviour(len(rows), 0, 0, _hits(greedy, rows, task), sum(_hits(sampled, rows, task)), total(uses))


def _asked(probes: Sequence[Probe], task: GapTask) -> list[Trace]:
    """The held-out rows that can carry an error, in the order of their probes."""
    rows = task.probed
    return [rows[probe.row.source] for probe in probes]


def _hits(answers: Sequence[Completion], rows: Sequence[Trace], task: GapTask) -> tuple[bool, ...]:
    return tuple(task.right(row, completion.text) for row, completion in zip(rows, answers, strict=True))


def _corrected(answer: Completion, probe: Probe) -> bool:
    """Whether the visible text begins with the right answer, past the place where the error left it."""
    end = probe.error - probe.start + probe.fork + 1
    visible = apply_undo(answer.token_ids, probe.undo_id)
    right = probe.right
    if end == len(right):  # the right thing was to end
        return visible == right[:-1] and answer.finish_reason == "stop"
    return visible[:end] == right[:end]
