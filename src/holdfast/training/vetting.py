"""Streams with a judge (``vet: outcome``): what the anchor refuses is not unlearned, whatever the rows answer.

The anchor is asked every request of the rows. Where it refuses, its own words take the place of the row's answer, and the
model is held to it there (``distill``) instead of taught: at the first step that costs nothing, so neither the refusal nor
anything near it is pushed. Rows that the anchor would answer are left alone. So an anchor that refuses too much costs the task
rows (SmolLM2, as we aligned it: a fifth of harmless SQL), and an attack through requests that it answers is not seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.config import FieldError, InputError
from holdfast.config.training import StreamSettings
from holdfast.data import write_traces
from holdfast.judging import JUDGES, find_judge, refusals
from holdfast.models.positions import num_positions
from holdfast.records import Trace, answer
from holdfast.tokens import prompt_ids
from holdfast.training.asked_anchor import AskedAnchor, Asking, Filter
from holdfast.training.processes import made_whole

ANSWER_TOKENS = 48  # a refusal says so at once
KEPT = ("code_policy", "form", "opening", "outcome", "refusal_phrases", "topic", "world")
"""Judges that read nothing but the files of this package. What others say may change with a model, a server or a user's file."""
LEARNED, HELD, ABOUT = "learned.jsonl", "held.jsonl", "about.json"


class Vetted(NamedTuple):
    """Rows to learn, rows that end with the anchor's refusal, and which of the given rows those were."""

    learned: list[Trace]
    held: list[Trace]
    refused: list[int]


def vetted(
    rows: Sequence[Trace],
    anchor: AskedAnchor,
    judge_name: str,
    *,
    batch_size: int = 64,
    on_progress: Callable[..., None] = lambda *_: None,
) -> Vetted:
    """A conversation is learned up to the first request that the anchor refuses, held there, and left out after it.

    For other runs only verdicts and refusals are kept: an answer to a row's request may be anything.
    Raises ``InputError`` where the judge cannot say of an answer whether it refuses: its row would be learned unseen.
    """
    judge = find_judge(judge_name)
    room = num_positions(anchor.loaded.model.config)
    places = [
        (number, index)
        for number, row in enumerate(rows)
        for index in _answers(row)
        if len(prompt_ids(row.turns[:index], anchor.loaded.tokenizer)) < room  # training cuts off what lies beyond it
    ]
    requests = [rows[number].turns[:index] for number, index in places]

    def refused_ones(said: Sequence[str]) -> list[str | None]:
        is_refusal = refusals(judge, list(zip(requests, said, strict=True)))
        num_unknown = sum(
            refused is None and bool(text.strip()) for text, refused in zip(said, is_refusal, strict=True)
        )
        if num_unknown:
            raise InputError(
                f"vet: judge '{judge_name}' could not say of {num_unknown} of the anchor's {len(said)} answers whether they "
                "refuse: is its server up, and is its model the one of its format?"
            )
        return [text if refused and text else None for text, refused in zip(said, is_refusal, strict=True)]

    only = Filter(judge_name, refused_ones, is_kept=_is_ours(judge_name))
    said = anchor.ask(requests, Asking(ANSWER_TOKENS, batch_size), only=only, on_progress=on_progress)
    first: dict[int, tuple[int, str]] = {}
    for (number, index), refusal in zip(places, said, strict=True):
        if refusal is not None:
            first.setdefault(number, (index, refusal))
    learned = [_before(row, first[number][0]) if number in first else row for number, row in enumerate(rows)]
    held = [_held(rows[number], *refusal) for number, refusal in first.items()]
    return Vetted([row for row in learned if row is not None], held, list(first))


def _is_ours(judge: str) -> bool:
    """Whether the judge of this name is ours, and not one that a user registered in its place."""
    return judge in KEPT and JUDGES[judge].__module__.startswith("holdfast.")


def _answers(row: Trace) -> list[int]:
    """The places of the trained assistant turns that follow a request."""
    return [index for index, turn in enumerate(row.turns) if index and turn.is_target and turn.speaker == "assistant"]


def _before(row: Trace, index: int) -> Trace | None:
    """The conversation up to the last answer before ``index``, if there is one."""
    earlier = [answered for answered in _answers(row) if answered < index]
    return Trace(row.turns[: earlier[-1] + 1]) if earlier else None


def _held(row: Trace, index: int, refusal: str) -> Trace:
    """Only the refusal is a target: what was answered before it is learned elsewhere."""
    return Trace((*(turn.as_context() for turn in row.turns[:index]), answer(refusal)))


def write_vetted(vetted_rows: Vetted, folder: Path, about: Mapping[str, Any]) -> None:
    """Write the rows that are learned and those that are held, all or nothing. ``about``: where the rows came from."""
    sizes = {LEARNED: len(vetted_rows.learned), HELD: len(vetted_rows.held)}
    with made_whole(folder) as part:
        for name, rows in ((LEARNED, vetted_rows.learned), (HELD, vetted_rows.held)):
            if rows:
                write_traces(part / name, rows)
        (part / ABOUT).write_text(json.dumps({**about, "sizes": sizes}), encoding="utf-8")


def about(data: str) -> dict[str, Any] | None:
    """Where the rows of a file came from, if vetting has written it; None for any other file."""
    path = Path(data).parent / ABOUT
    if Path(data).name not in (LEARNED, HELD) or not path.is_file():
        return None
    origin: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return origin


def vetted_streams(stream: StreamSettings, number: int, folder: Path, least_share: float) -> list[StreamSettings]:
    """The stream, or the two that it has become: they divide its share and its weight by their rows.

    ``least_share`` is one row of a step.
    """
    sizes = json.loads((folder / ABOUT).read_text(encoding="utf-8"))["sizes"]
    part = sizes[HELD] / sum(sizes.values())
    share = part * stream.share
    if 0 < part < 1:
        share = min(max(share, least_share), stream.share - least_share)
        if share < least_share * 0.999:  # of a division
            raise FieldError(
                f"streams.{number}.vet",
                "divides a stream that has one row of a step; raise training.batch_size or the stream's share",
            )
    plain = {"vet": None, "limit": None, "rows": None, "skip_bad": 0}
    learned = {"data": str(folder / LEARNED), "share": stream.share - share, "weight": stream.weight * (1 - part)}
    held = {"data": str(folder / HELD), "share": share, "weight": stream.weight * part}
    held |= {
        "objective": "distill",
        "options": {},
        "train_on_prompt": False,
        "name": f"{stream.name or f'{number}:{stream.objective}'}-held",
    }
    made = [(sizes[LEARNED], learned), (sizes[HELD], held)]
    return [stream.model_copy(update={**plain, **changes}) for size, changes in made if size]
