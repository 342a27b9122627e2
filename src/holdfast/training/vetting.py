"""Streams with a judge (``vet: refusal_phrases``): what the anchor refuses is not unlearned, whatever the rows answer.

The anchor is asked every request of the rows. Where it refuses, its own words take the place of the row's answer, and the
model is held to it there (``distill``) instead of taught: at the first step that costs nothing, so neither the refusal nor
anything near it is pushed. Rows that the anchor would answer are left alone, so a benign task costs nothing but the asking.
An attack through requests that the anchor answers is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.config import InputError
from holdfast.config.training import StreamSettings
from holdfast.generation import generate
from holdfast.judging import find_judge, refusals
from holdfast.models import LoadedModel
from holdfast.records import Trace, answer, write_traces

ANSWER_TOKENS = 48  # a refusal says so at once
BATCH = 256
LEARNED, HELD = "learned.jsonl", "held.jsonl"


class Vetted(NamedTuple):
    """Rows as they were, and rows that end with the anchor's refusal."""

    learned: list[Trace]
    held: list[Trace]


def vetted(rows: Sequence[Trace], anchor: LoadedModel, judge: str) -> Vetted:
    """A row is held from its first request that the anchor refuses: what follows there is left out."""
    places = [(number, place) for number, row in enumerate(rows) for place in _answers(row)]
    asked = [rows[number].turns[:place] for number, place in places]
    written = generate(anchor.model, anchor.tokenizer, asked, max_new_tokens=ANSWER_TOKENS, batch_size=BATCH)
    said = [completion.text.strip() for completion in written]
    held: dict[int, Trace] = {}
    refused = refusals(find_judge(judge), list(zip(asked, said, strict=True)))
    for (number, _), turns, text, is_refusal in zip(places, asked, said, refused, strict=True):
        if is_refusal and text:
            held.setdefault(number, Trace((*turns, answer(text))))
    return Vetted([row for number, row in enumerate(rows) if number not in held], list(held.values()))


def _answers(row: Trace) -> list[int]:
    """Where an assistant turn that is learned follows something to answer."""
    return [place for place, turn in enumerate(row.turns) if place and turn.is_target and turn.speaker == "assistant"]


def write_vetted(found: Vetted, folder: Path) -> None:
    """All or nothing: a folder that is there is whole."""
    part = folder.with_name(folder.name + ".part")
    part.mkdir(parents=True, exist_ok=True)
    for name, rows in ((LEARNED, found.learned), (HELD, found.held)):
        if rows:
            write_traces(part / name, rows)
    part.rename(folder)


def vetted_streams(stream: StreamSettings, folder: Path, least_share: float) -> list[StreamSettings]:
    """The stream, or the two that it has become: they divide its share and its weight by their rows.

    ``least_share`` is one row of a step.
    """
    sizes = {name: _count(folder / name) for name in (LEARNED, HELD)}
    part = sizes[HELD] / sum(sizes.values())
    share = part * stream.share
    if 0 < part < 1:
        share = min(max(share, least_share), stream.share - least_share)
        if share < least_share * 0.999:  # of a division
            raise InputError(
                f"{stream.data}: vet divides this stream, which has one row of a step: raise training.batch_size or its share"
            )
    plain = {"vet": None, "limit": None, "skip_bad": 0}
    learned = {"data": str(folder / LEARNED), "share": stream.share - share, "weight": stream.weight * (1 - part)}
    held = {"data": str(folder / HELD), "share": share, "weight": stream.weight * part}
    held |= {"objective": "distill", "options": {}, "name": f"{stream.name or stream.objective}-held"}
    made = [(sizes[LEARNED], learned), (sizes[HELD], held)]
    return [stream.model_copy(update={**plain, **changes}) for size, changes in made if size]


def _count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0
