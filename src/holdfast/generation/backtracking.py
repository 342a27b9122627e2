"""Decoding with ``<UNDO>``: token by token for a batch of prompts whose rows take back different amounts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from holdfast.config import InputError, need_at_least_one
from holdfast.generation.answers import Answer, Change, UndoLimits
from holdfast.generation.choosing import choose
from holdfast.generation.conversations import check_sampling, completion, pad_id, ready_to_read, stop_ids
from holdfast.generation.prompts import Prompt
from holdfast.generation.slots import SlotCache, check_context
from holdfast.models.eval_mode import eval_mode
from holdfast.models.positions import num_positions
from holdfast.records import Completion
from holdfast.tokens import UNDO_TOKEN, Context, find_undo_id


@dataclass(frozen=True, slots=True)
class UndoDecoding:
    """How to decode."""

    max_new_tokens: int = 256  # undos and what they take back included
    context: Context = "soft"
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    limits: UndoLimits = field(default_factory=UndoLimits)

    def __post_init__(self) -> None:
        check_sampling(self.temperature, self.top_p, self.max_new_tokens, seed=self.seed)
        if self.context not in ("soft", "hard"):
            raise InputError(f"context: expected soft or hard, not '{self.context}'")


class Step(NamedTuple):
    """A token has been written to a row's answer, which may have ended with it."""

    row: int
    answer: Answer
    token: int
    change: Change
    finished: bool


@dataclass(frozen=True)
class UndoDecoder:
    """A model that may take back what it wrote, with the tokens that steer it."""

    model: Any
    undo_id: int
    stops: tuple[int, ...]
    pad_id: int
    how: UndoDecoding

    @classmethod
    def of(cls, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, how: UndoDecoding) -> UndoDecoder:
        """A decoder for this model. Raises ``InputError`` where the vocabulary has no ``<UNDO>``."""
        undo_id = find_undo_id(tokenizer)
        if undo_id is None:
            raise InputError(
                f"this model's vocabulary has no {UNDO_TOKEN}: train one (holdfast train undo), or decode plainly"
            )
        stops = stop_ids(model, tokenizer)
        return cls(model, undo_id, tuple(stops), pad_id(tokenizer, stops), how)

    def steps(
        self,
        prompts: Sequence[Sequence[int]],
        begun: Sequence[Sequence[int]] | None = None,
        generator: torch.Generator | None = None,
    ) -> Iterator[Step]:
        """One batch. ``begun``: tokens each answer starts with; unlike a begun answer in the prompt they can be undone.

        The end of a text is not put on the stack. A row ends at the model's last position.
        """
        how, num, room = self.how, len(prompts), num_positions(self.model.config)
        check_context(self.model, how.context, max(map(len, prompts)) + how.max_new_tokens)
        slots = SlotCache(self.model, context=how.context)
        if generator is None:
            generator = torch.Generator(self.model.device).manual_seed(how.seed)
        scripts = [list(script) for script in begun] if begun else [[] for _ in prompts]
        answers = [Answer(self.undo_id, how.limits) for _ in prompts]
        done = [False] * num
        logits = slots.start(prompts, self.pad_id)
        for number in range(how.max_new_tokens):
            barred = [[] if done[row] else answers[row].barred() for row in range(num)]
            tokens = choose(logits, barred, temperature=how.temperature, top_p=how.top_p, generator=generator)
            was_done, last = list(done), number + 1 == how.max_new_tokens
            for row, answer in enumerate(answers):
                if was_done[row]:
                    tokens[row] = self.pad_id
                    continue
                if number < len(scripts[row]):
                    tokens[row] = scripts[row][number]
                stop = tokens[row] in self.stops
                change: Change = answer.end(tokens[row]) if stop else answer.write(tokens[row])
                depth = len(prompts[row]) + len(answer.visible if how.context == "hard" else answer.written)
                done[row] = stop or last or depth >= room
                yield Step(row, answer, tokens[row], change, done[row])
            if all(done):
                return
            logits = slots.feed(tokens, [token == self.undo_id for token in tokens], done)


def generate_with_undo(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    how: UndoDecoding | None = None,
    *,
    begun: Sequence[Sequence[int]] | None = None,
    batch_size: int = 64,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Completion]:
    """One completion per prompt, in order: its text is what is left, its ids are all that was written."""
    how = how or UndoDecoding()
    need_at_least_one("sampling", batch_size=batch_size)
    decoder = UndoDecoder.of(model, tokenizer, how)
    conversations, ids = ready_to_read(prompts, model, tokenizer)
    order = sorted(range(len(ids)), key=lambda index: -len(ids[index]))  # longest first: memory trouble shows at once
    generator = torch.Generator(model.device).manual_seed(how.seed)
    written: dict[int, list[int]] = {}
    with eval_mode(model):
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            scripts = [begun[index] for index in batch] if begun else None
            for step in decoder.steps([ids[index] for index in batch], scripts, generator):
                if step.finished:
                    written[batch[step.row]] = step.answer.written
                    if on_progress is not None:
                        on_progress(len(written), len(order))
    return [completion(turns, written[i], decoder.stops, tokenizer) for i, turns in enumerate(conversations)]
