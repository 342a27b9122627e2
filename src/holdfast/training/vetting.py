"""Streams with a judge (``vet: refusal_phrases``): what the anchor refuses is not learned, whatever the rows answer.

The anchor is asked every request of the rows. Where it refuses, its own words take the place of the row's answer: a row
that would teach the model to give up a refusal teaches it to keep one. Rows that the anchor would answer are left alone, so
a benign task costs nothing but the asking. An attack through requests that the anchor answers is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.generation import generate
from holdfast.judging import find_judge, refusals
from holdfast.models import LoadedModel
from holdfast.records import Trace, answer

ANSWER_TOKENS = 48  # a refusal says so at once
BATCH = 256


def vetted(rows: Sequence[Trace], anchor: LoadedModel, judge: str) -> tuple[list[Trace], int]:
    """The rows, each up to the first request that the anchor refuses and then its refusal; and in how many it does."""
    places = [(number, place) for number, row in enumerate(rows) for place in _answers(row)]
    asked = [rows[number].turns[:place] for number, place in places]
    written = generate(anchor.model, anchor.tokenizer, asked, max_new_tokens=ANSWER_TOKENS, batch_size=BATCH)
    said = [completion.text.strip() for completion in written]
    kept: dict[int, Trace] = {}
    refused = refusals(find_judge(judge), list(zip(asked, said, strict=True)))
    for (number, _), turns, text, is_refusal in zip(places, asked, said, refused, strict=True):
        if is_refusal and text:
            kept.setdefault(number, Trace((*turns, answer(text))))
    return [kept.get(number, row) for number, row in enumerate(rows)], len(kept)


def _answers(row: Trace) -> list[int]:
    """Where an assistant turn that is learned follows something to answer."""
    return [place for place, turn in enumerate(row.turns) if place and turn.is_target and turn.speaker == "assistant"]
