"""Answers from a transformers model: chat template, batches of similar length, seeded sampling, order kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase, StoppingCriteriaList

from holdfast.generation.conversations import (
    check_room,
    check_sampling,
    completion,
    pad_id,
    ready_to_read,
    stop_ids,
)
from holdfast.generation.graphs import Decoding, graphs_for, until_stop
from holdfast.generation.prompts import Prompt
from holdfast.generation.reading import padded_left
from holdfast.models.eval_mode import eval_mode
from holdfast.models.positions import num_learned_positions, num_positions
from holdfast.records import Completion

StopWhen = Callable[[list[int]], bool]
"""Whether an answer of these ids is complete."""


def generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    *,
    max_new_tokens: int,
    temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int = 0,
    batch_size: int = 64,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Completion]:
    """One completion per prompt, in order. Temperature 0 is greedy.

    A last assistant turn in the prompt is an answer already begun: the model goes on from there, and the completion holds
    only what it adds; at the model's last position it is cut off. Sampling is repeatable for the same prompts, seed and
    batch size. The model's own generation defaults (repetition penalty, top-k) are not used: what is measured is the model.
    ``on_progress(done, total)`` after every batch. On a GPU the steps are replayed from a CUDA graph where the model
    allows it (``graphs``).
    """
    conversations, ids = ready_to_read(prompts, model, tokenizer)
    written = continue_ids(
        model,
        tokenizer,
        ids,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        batch_size=batch_size,
        on_progress=on_progress,
    )
    stops = stop_ids(model, tokenizer)
    return [completion(turns, row, stops, tokenizer) for turns, row in zip(conversations, written, strict=True)]


def continue_ids(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[list[int]],
    *,
    max_new_tokens: int,
    temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int = 0,
    batch_size: int = 64,
    stop_when: StopWhen | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[list[int]]:
    """The new ids after each prompt, up to and including the one that ends it; otherwise as ``generate``.

    ``stop_when`` is shown a row's new ids after every token. Once it says True the row is written no further, but may be
    padded. It is asked on the CPU, so no CUDA graph is used with it.
    """
    check_sampling(temperature, top_p, max_new_tokens, batch_size, seed=seed)
    check_room(ids, model)
    stops = stop_ids(model, tokenizer)
    how = Decoding(max_new_tokens, stops, pad_id(tokenizer, stops), temperature, top_p)
    order = sorted(range(len(ids)), key=lambda index: -len(ids[index]))  # longest first: memory trouble shows at once
    written: dict[int, list[int]] = {}
    # Greedy answers draw nothing, and must not touch the process's random state: another thread may be drawing.
    luck = _seeded(model, seed) if temperature > 0 else contextlib.nullcontext()
    with eval_mode(model), luck, torch.inference_mode():
        write = _writer(model, ids, how, min(batch_size, len(ids)), stop_when)
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            written.update(zip(batch, write(batch), strict=True))
            if on_progress is not None:
                on_progress(len(written), len(order))
    room = num_positions(model.config)
    return [written[index][: room - len(prompt)] for index, prompt in enumerate(ids)]


@contextlib.contextmanager
def _seeded(model: PreTrainedModel, seed: int) -> Iterator[None]:
    """Draw by this seed; afterwards the random state is what it was."""
    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _writer(
    model: PreTrainedModel, ids: Sequence[list[int]], how: Decoding, num_rows: int, stop_when: StopWhen | None
) -> Callable[[Sequence[int]], list[list[int]]]:
    """Indices of prompts -> their new ids; by CUDA graphs on a GPU, and where they fail by transformers."""
    graphs = None if stop_when else graphs_for(model, how, num_rows)
    luck = torch.rand(len(ids), how.max_new_tokens, dtype=torch.float64) if graphs and how.temperature > 0 else None

    def write(batch: Sequence[int]) -> list[list[int]]:
        prompts = [ids[index] for index in batch]
        by_graph = graphs.attempt(prompts, None if luck is None else luck[list(batch)]) if graphs else None
        return _write(model, prompts, how, stop_when) if by_graph is None else by_graph.ids

    return write


def _write(
    model: PreTrainedModel, batch: Sequence[list[int]], how: Decoding, stop_when: StopWhen | None
) -> list[list[int]]:
    """The new ids of each row, up to and including the one that ends it, by transformers.

    One token beyond learned positions is an error: all rows stop with the longest, then the shorter ones go on without it.
    """
    room, left = num_learned_positions(model.config), how.max_new_tokens
    texts, going_on = [list(row) for row in batch], list(range(len(batch)))
    while going_on and left:
        part = replace(how, max_new_tokens=min(left, room - max(len(texts[row]) for row in going_on)))
        for row, ids in zip(going_on, _continue(model, [texts[row] for row in going_on], part, stop_when), strict=True):
            texts[row] += ids
        left -= part.max_new_tokens
        going_on = [row for row in going_on if len(texts[row]) < room and texts[row][-1] not in how.stops]
        if stop_when:
            going_on = [row for row in going_on if not stop_when(texts[row][len(batch[row]) :])]
    return [text[len(row) :] for text, row in zip(texts, batch, strict=True)]


def _continue(
    model: PreTrainedModel, batch: Sequence[list[int]], how: Decoding, stop_when: StopWhen | None
) -> list[list[int]]:
    ids, given = padded_left(batch, how.pad_id, model.device)

    def stopped(all_ids: Tensor, _scores: Any, **_: Any) -> Tensor:
        assert stop_when is not None
        return torch.tensor([stop_when(row) for row in all_ids[:, ids.shape[1] :].tolist()], device=all_ids.device)

    output = cast(Any, model).generate(  # typed there for a protocol that PreTrainedModel does not declare
        input_ids=ids,
        attention_mask=given.long(),
        generation_config=_generation_config(how),
        stopping_criteria=StoppingCriteriaList([stopped] if stop_when else []),
    )
    return [until_stop(row, how.stops) for row in output[:, ids.shape[1] :].tolist()]


def _generation_config(how: Decoding) -> GenerationConfig:
    """Every knob that a checkpoint may bring along is set here, because unset ones would be taken from it."""
    # For greedy decoding these are the values that transformers takes for 'not set': any other would be warned about.
    sampling: dict[str, Any] = {"do_sample": False, "temperature": 1.0, "top_p": 1.0, "top_k": 50}
    if how.temperature > 0:
        sampling = {"do_sample": True, "temperature": how.temperature, "top_p": how.top_p, "top_k": 0}
    return GenerationConfig(
        max_new_tokens=how.max_new_tokens,
        num_beams=1,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        eos_token_id=how.stops,
        pad_token_id=how.pad_id,
        **sampling,
    )
