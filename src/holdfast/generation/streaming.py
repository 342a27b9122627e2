"""An answer as it is written: insertions and deletions of text, for a terminal or for a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from holdfast.generation.backtracking import UndoDecoder, UndoDecoding
from holdfast.generation.conversations import completion, ready_to_read
from holdfast.generation.prompts import Prompt
from holdfast.generation.typewriter import Typewriter
from holdfast.records import Completion


@dataclass(frozen=True, slots=True)
class Insert:
    """Text that appears at the end of a row's answer."""

    row: int
    text: str


@dataclass(frozen=True, slots=True)
class Delete:
    """So many characters vanish from the end of a row's answer."""

    row: int
    num_chars: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A row's answer is complete. All insertions and deletions carried out give its text."""

    row: int
    completion: Completion


Event = Insert | Delete | Finished


def stream_with_undo(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    how: UndoDecoding | None = None,
    *,
    begun: Sequence[Sequence[int]] | None = None,
) -> Iterator[Event]:
    """Answer all prompts in one batch, event by event. The model should be in eval mode."""
    decoder = UndoDecoder.of(model, tokenizer, how or UndoDecoding())
    conversations, ids = ready_to_read(prompts, model, tokenizer)
    writers = [Typewriter(tokenizer) for _ in prompts]
    for step in decoder.steps(ids, begun):
        writer = writers[step.row]
        if step.change != "nothing":
            num_deleted, inserted = writer.push(step.token) if step.change == "pushed" else writer.pop()
            if num_deleted:
                yield Delete(step.row, num_deleted)
            if inserted:
                yield Insert(step.row, inserted)
        if step.finished:
            held_back = writer.finish()
            if held_back:
                yield Insert(step.row, held_back)
            yield Finished(step.row, completion(conversations[step.row], step.answer.written, decoder.stops, tokenizer))
