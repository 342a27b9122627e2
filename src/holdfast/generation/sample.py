"""Answers from a transformers model: chat template, batches of similar length, seeded sampling, order kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from holdfast.config import InputError
from holdfast.records import Completion, Trace, Turn, context
from holdfast.tokens import apply_undo, find_undo_id, prompt_ids

Prompt = Trace | Sequence[Turn] | str
"""A trace (its answer is not shown to the model), the turns of a conversation, or the text of one user turn."""


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
    only what it adds. Sampling is repeatable for the same prompts, seed and batch size. The model's own generation defaults
    (repetition penalty, top-k) are not used: what is measured is the model. ``on_progress(done, total)`` after every batch.
    """
    if temperature < 0 or not 0 < top_p <= 1 or max_new_tokens < 1 or batch_size < 1:
        raise InputError(
            f"sampling: expected temperature >= 0, 0 < top_p <= 1, max_new_tokens >= 1 and batch_size >= 1, not "
            f"{temperature}, {top_p}, {max_new_tokens} and {batch_size}"
        )
    conversations = [turns_of(prompt) for prompt in prompts]
    ids = [_ids_to_continue(turns, tokenizer) for turns in conversations]
    settings = _settings(model, tokenizer, max_new_tokens, temperature, top_p)
    order = sorted(range(len(ids)), key=lambda index: -len(ids[index]))  # longest first: memory trouble shows at once
    written: dict[int, list[int]] = {}
    devices = [model.device] if model.device.type == "cuda" else []
    was_training = model.training
    model.eval()
    with torch.random.fork_rng(devices=devices), torch.inference_mode():
        torch.manual_seed(seed)
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            written.update(zip(batch, _continue(model, [ids[index] for index in batch], settings), strict=True))
            if on_progress is not None:
                on_progress(len(written), len(order))
    model.train(was_training)
    return [_completion(turns, written[index], settings, tokenizer) for index, turns in enumerate(conversations)]


def turns_of(prompt: Prompt) -> tuple[Turn, ...]:
    """The turns that the model is shown."""
    if isinstance(prompt, str):
        return (context("user", prompt),)
    turns = prompt.prompt if isinstance(prompt, Trace) else tuple(prompt)
    if not turns:
        raise InputError("the prompt is empty: there is no turn before the answer")
    return turns


def _ids_to_continue(turns: tuple[Turn, ...], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Generation prompt included; after an answer already begun there is none, and its end-of-turn is left off."""
    if turns[-1].speaker == "text":
        return list(tokenizer(turns[-1].visible)["input_ids"])
    if turns[-1].speaker != "assistant":
        return prompt_ids(turns, tokenizer)
    messages = [{"role": turn.speaker, "content": turn.visible} for turn in turns]
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, continue_final_message=True)
    except ValueError as error:
        raise InputError(f"the chat template cannot go on from an answer already begun: {error}") from error
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _settings(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_new_tokens: int, temperature: float, top_p: float
) -> GenerationConfig:
    """Every knob that a checkpoint may bring along is set here, because unset ones would be taken from it."""
    ends = getattr(model.generation_config, "eos_token_id", None)
    stops = {*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id} - {None}
    if not stops:
        raise InputError("neither the model nor its tokenizer says which token ends a text (eos_token_id)")
    pad = tokenizer.pad_token_id
    # For greedy decoding these are the values that transformers takes for 'not set': any other would be warned about.
    sampling: dict[str, Any] = {"do_sample": False, "temperature": 1.0, "top_p": 1.0, "top_k": 50}
    if temperature > 0:
        sampling = {"do_sample": True, "temperature": temperature, "top_p": top_p, "top_k": 0}
    return GenerationConfig(
        max_new_tokens=max_new_tokens,
        num_beams=1,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        eos_token_id=sorted(stops),
        pad_token_id=min(stops) if pad is None else pad,
        **sampling,
    )


def _continue(model: PreTrainedModel, batch: Sequence[list[int]], settings: GenerationConfig) -> list[list[int]]:
    """The new ids of each row, up to and including the one that ends it."""
    width = max(map(len, batch))
    padded = [[settings.pad_token_id] * (width - len(row)) + row for row in batch]
    attention = [[0] * (width - len(row)) + [1] * len(row) for row in batch]
    output = cast(Any, model).generate(  # typed there for a protocol that PreTrainedModel does not declare
        input_ids=torch.tensor(padded, device=model.device),
        attention_mask=torch.tensor(attention, device=model.device),
        generation_config=settings,
    )
    return [_until_stop(row, settings.eos_token_id) for row in output[:, width:].tolist()]


def _until_stop(row: list[int], stops: Sequence[int]) -> list[int]:
    end = next((index for index, token in enumerate(row) if token in stops), len(row) - 1)
    return row[: end + 1]


def _completion(
    turns: tuple[Turn, ...], written: list[int], settings: GenerationConfig, tokenizer: PreTrainedTokenizerBase
) -> Completion:
    stopped = bool(written) and written[-1] in settings.eos_token_id
    ids = written[:-1] if stopped else written
    undo = find_undo_id(tokenizer)
    visible = ids if undo is None else apply_undo(ids, undo)
    request = next((turn.visible for turn in reversed(turns) if turn.speaker in ("user", "text")), turns[-1].visible)
    return Completion(
        prompt=request,
        text=str(tokenizer.decode(visible, skip_special_tokens=True)),
        token_ids=tuple(ids),
        num_undos=0 if undo is None else ids.count(undo),
        finish_reason="stop" if stopped else "length",
    )
