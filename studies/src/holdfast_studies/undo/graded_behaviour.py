"""What a trained model does on requests whose answers are graded: after its own wrong step, greedily, and sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.generation import UndoDecoding, UndoLimits, UndoUse, generate, generate_with_undo
from holdfast.judging import pair_logps
from holdfast.models import LoadedModel
from holdfast.records import Completion, Trace
from holdfast.tokens import apply_undo
from holdfast_studies.undo.retry import Try
from holdfast_studies.undo.safety_gap_behaviour import Behaviour
from holdfast_studies.undo.safety_gap_probe import Probe
from holdfast_studies.undo.safety_gap_task import GapTask

LEAST_LOGP = -1e9  # of an empty answer: JSON has no infinity


@dataclass(frozen=True)
class Writer:
    """A model and how it writes. ``context`` is None for a model that was not taught to undo: it decodes plainly."""

    loaded: LoadedModel
    task: GapTask
    context: str | None
    seed: int

    def answers(
        self, rows: Sequence[Trace], temperature: float, begun: Sequence[Sequence[int]] | None = None
    ) -> list[Completion]:
        """One answer to every row."""
        config, model = self.task.config, self.loaded
        if self.context is None:
            return generate(
                model.model,
                model.tokenizer,
                rows,
                max_new_tokens=config.max_new_tokens,
                temperature=temperature,
                seed=self.seed,
                batch_size=config.eval_batch,
            )
        limits = UndoLimits(per_answer=config.max_undos)
        how = UndoDecoding(
            config.max_new_tokens,
            self.context,  # type: ignore[arg-type]
            temperature,
            seed=self.seed,
            limits=limits,
        )
        return generate_with_undo(model.model, model.tokenizer, rows, how, begun=begun, batch_size=config.eval_batch)

    def tries(self, rows: Sequence[Trace], temperature: float) -> list[Try]:
        """Graded answers; of a model without undo also their likelihood, by which plain retry chooses."""
        answers = self.answers(rows, temperature)
        texts = [answer.text for answer in answers]
        grades = self.task.answer_tasks["test"].grade(list(zip(rows, texts, strict=True)))
        logps: list[float | None] = [None] * len(rows)
        if self.context is None:
            pairs = [(row.prompt, text) for row, text in zip(rows, texts, strict=True)]
            logps = [max(logp, LEAST_LOGP) for logp in pair_logps(self.loaded, pairs)]
        return [
            Try(good, _num_tokens(answer), answer.num_undos, logp)
            for good, answer, logp in zip(grades, answers, logps, strict=True)
        ]


def _num_tokens(answer: Completion) -> int:
    """The number of all tokens written, including the one that ends the answer."""
    return len(answer.token_ids) + (answer.finish_reason == "stop")


def behave_graded(
    loaded: LoadedModel, probes: Sequence[Probe], task: GapTask, context: str | None, *, seed: int
) -> Behaviour:
    """Forced errors are tried only on a model with undo. All test requests are answered greedily and sampled."""
    writer, rows, num = Writer(loaded, task, context, seed), task.test, task.config.num_sampled
    taken_back = recovered = 0
    if context is not None:
        probed = [task.probed[probe.row.source] for probe in probes]
        forced = writer.answers(probed, 0.0, [probe.begun for probe in probes])
        taken_back = sum(_taken_back(answer, probe) for answer, probe in zip(forced, probes, strict=True))
        texts = [answer.text for answer in forced]
        recovered = sum(task.answer_tasks["test"].grade(list(zip(probed, texts, strict=True))))
    greedy = writer.tries(rows, 0.0)
    sampled = writer.tries([row for row in rows for _ in range(num)], 1.0)
    tries = tuple(tuple(sampled[at : at + num]) for at in range(0, len(sampled), num))
    return Behaviour(
        num=len(probes),
        corrected=taken_back,
        recovered=recovered,
        hits=tuple(answer.right for answer in greedy),
        sampled_right=sum(answer.right for answer in sampled),
        sampled=UndoUse(),
        greedy=tuple(greedy),
        tries=tries,
    )


def _taken_back(answer: Completion, probe: Probe) -> bool:
    """Whether what is left no longer begins with the error."""
    begun = probe.begun
    return apply_undo(answer.token_ids, probe.undo_id)[: len(begun)] != begun
