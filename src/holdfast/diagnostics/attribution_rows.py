"""Responses -> rows that gradients can be attributed on: tokens with roles, and the advantages of each kind of reward."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from holdfast.config import InputError
from holdfast.diagnostics.attempts import Attempts, Splitter
from holdfast.diagnostics.attribution import AttributionRow
from holdfast.diagnostics.rewards import Scored, group_advantages, outcome, partial_credit, process_rewards
from holdfast.diagnostics.transcripts import Transcript
from holdfast.judging.extractors import Extractor, reference_answer
from holdfast.records import Role, Segment, Trace, Turn, context
from holdfast.tokens import TokenRow, tokenize_all


def attribution_rows(
    transcripts: Sequence[Transcript],
    split: Splitter,
    extract: Extractor,
    tokenizer: Any,
    *,
    max_length: int | None = None,
) -> list[AttributionRow]:
    """Split, score and tokenise. Responses to one problem are one group, as in GRPO.

    Raises ``InputError`` where it is not known what a response answers: its gradient depends on that.
    """
    kept = [transcript for transcript in transcripts if transcript.response.strip()]
    if unknown := [transcript.problem for transcript in kept if not transcript.asked.strip()]:
        raise InputError(
            f"attribution: {len(unknown)} responses ({unknown[0]}, ...) have no prompt: under what were they written?"
        )
    parts = [_merged(split(transcript.response, transcript.ended is not False)) for transcript in kept]
    scored = [
        Scored(transcript.problem, part, reference_answer(transcript.reference, extract))
        for transcript, part in zip(kept, parts, strict=True)
    ]
    problems = [transcript.problem for transcript in kept]
    outcomes = group_advantages([outcome(row) for row in scored], problems)
    partials = group_advantages([partial_credit(row) for row in scored], problems)
    steps = [process_rewards(row) for row in scored]
    expected = sum(map(sum, steps)) / len(steps) if steps else 0.0
    traces = [
        Trace((context("user", transcript.asked), Turn("assistant", part.segments)))
        for transcript, part in zip(kept, parts, strict=True)
    ]
    rows, _ = tokenize_all(traces, tokenizer, max_length=max_length)
    return [
        AttributionRow(
            row=row,
            advantage={
                "outcome": [outcomes[row.source]] * row.num_targets,
                "partial": [partials[row.source]] * row.num_targets,
                "process": [value - expected for value in _to_go_by_token(row, steps[row.source])],
            },
            attempt_tokens=row.roles.count(Role.SAMPLE) / max(1, len(parts[row.source].answers)),
        )
        for row in rows
    ]


def _merged(parts: Attempts) -> Attempts:
    """Neighbours of one role as one segment, so that segments and runs of tokens are the same thing."""
    runs = [
        Segment(role, "".join(part.text for part in run)) for role, run in groupby(parts.segments, lambda s: s.role)
    ]
    return Attempts(parts.answers, parts.stopped, tuple(runs))


def _to_go_by_token(row: TokenRow, rewards: Sequence[float]) -> list[float]:
    """For every token, the rewards of its own segment and of all later ones."""
    runs = [len(list(run)) for role, run in groupby(row.roles) if role != Role.PROMPT]
    values: list[float] = []
    for number, size in enumerate(runs):
        values += [sum(rewards[number:])] * size
    return values
