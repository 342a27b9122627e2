"""What every sampler does with a conversation before it is answered and after."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from holdfast.config import InputError, need_at_least_one
from holdfast.generation.prompts import Prompt, request_of, turns_of
from holdfast.models.positions import num_positions
from holdfast.records import Completion, Turn
from holdfast.tokens import apply_undo, find_undo_id, prompt_ids
from holdfast.tokens.encoding import Encoder, check_known
from holdfast.tokens.endings import stop_id
from holdfast.tokens.template import render

COLDEST = 1e-6
"""The lowest temperature above 0: logits divided by less leave what float32 can hold."""


def check_sampling(
    temperature: float, top_p: float, max_new_tokens: int, batch_size: int = 1, *, seed: int = 0
) -> None:
    """Raise ``InputError`` for sampling settings that cannot be used."""
    if not -(2**63) <= seed < 2**64:
        raise InputError(f"sampling: seed={seed}: expected at most 64 bits")
    if not (temperature == 0 or COLDEST <= temperature < math.inf):
        raise InputError(f"sampling: temperature={temperature:g}: expected 0 (greedy) or at least {COLDEST:g}")
    if not 0 < top_p <= 1:
        raise InputError(f"sampling: top_p={top_p:g}: expected a number above 0, 1 at most")
    need_at_least_one("sampling", max_new_tokens=max_new_tokens, batch_size=batch_size)


def ids_to_continue(turns: tuple[Turn, ...], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The ids that the model goes on from. They end in the generation prompt, or in the answer that was already begun.

    After a begun answer no end-of-turn token is written. A typed ``<UNDO>`` is spelled out: in a prompt it is text.
    """
    if turns[-1].speaker == "text":
        bos = [token for token in tokenizer("")["input_ids"][:1] if token == tokenizer.bos_token_id]
        return bos + Encoder(tokenizer).whole(turns[-1].visible)
    if turns[-1].speaker != "assistant":
        return prompt_ids(turns, tokenizer)
    try:
        return Encoder(tokenizer).whole(render(turns, tokenizer, open_answer=False, go_on=True))
    except InputError as error:
        raise InputError(f"the chat template cannot go on from an answer already begun: {error}") from error


def ready_to_read(
    prompts: Sequence[Prompt], model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> tuple[list[tuple[Turn, ...]], list[list[int]]]:
    """The conversations and their ids; one that the model cannot read, or that leaves no room, is refused."""
    conversations = [turns_of(prompt) for prompt in prompts]
    ids = [ids_to_continue(turns, tokenizer) for turns in conversations]
    check_known(ids, tokenizer)
    check_room(ids, model)
    return conversations, ids


def check_room(ids: Sequence[Sequence[int]], model: PreTrainedModel) -> None:
    """Refuses a request that leaves the model no room for an answer."""
    room = num_positions(model.config)
    for number, prompt in enumerate(ids, 1):
        if len(prompt) >= room:
            raise InputError(
                f"request {number} has {len(prompt)} tokens, but this model reads {room}: shorten it or leave it out"
            )


def stop_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The tokens that end a text."""
    stops = known_stops(model.generation_config, tokenizer)
    if not stops and (stop := stop_id(tokenizer)) is not None:
        return [stop]
    if not stops:
        raise InputError("neither the model nor its tokenizer says which token ends a text (eos_token_id)")
    return stops


def known_stops(config: GenerationConfig | None, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The tokens that a generation config and a tokenizer call the end of a text, of which there may be none."""
    ends = getattr(config, "eos_token_id", None)
    return sorted({*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id} - {None})


def pad_id(tokenizer: PreTrainedTokenizerBase, stops: Sequence[int]) -> int:
    """The id to pad with. Any token will do: nothing looks at it."""
    return min(stops) if tokenizer.pad_token_id is None else tokenizer.pad_token_id


def completion(
    turns: tuple[Turn, ...], written: Sequence[int], stops: Sequence[int], tokenizer: PreTrainedTokenizerBase
) -> Completion:
    """The completion for the ids written, the one that ends the text included. Every undo is applied."""
    stopped = bool(written) and written[-1] in stops
    ids = list(written[:-1] if stopped else written)
    undo = find_undo_id(tokenizer)
    visible = ids if undo is None else apply_undo(ids, undo)
    return Completion(
        prompt=request_of(turns),
        text=str(tokenizer.decode(visible, skip_special_tokens=True)),
        token_ids=tuple(ids),
        num_undos=0 if undo is None else ids.count(undo),
        finish_reason="stop" if stopped else "length",
    )
