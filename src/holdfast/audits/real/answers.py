"""Answers made at run time by a model that is at hand, held in this process's memory and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch

from holdfast.generation import generate
from holdfast.models import LoadedModel, load
from holdfast.records import Trace, answer, context

BATCH = 256


def answered_by(
    model: str, prompts: Sequence[str], device: str, *, everything: Sequence[str], max_new_tokens: int
) -> list[Trace]:
    """A row for every prompt. ``everything`` is answered at once the first time, so that later draws cost nothing."""
    found = _answers(model, tuple(everything), device, max_new_tokens)
    return [Trace((context("user", prompt), answer(found[prompt]))) for prompt in prompts]


@cache
def _answers(model: str, prompts: tuple[str, ...], device: str, max_new_tokens: int) -> dict[str, str]:
    loaded = load_for_use(model, device)
    written = generate(loaded.model, loaded.tokenizer, prompts, max_new_tokens=max_new_tokens, batch_size=BATCH)
    # An answer of nothing cannot be learned from; a full stop can.
    return {prompt: completion.text.strip() or "." for prompt, completion in zip(prompts, written, strict=True)}


def load_for_use(model: str, device: str) -> LoadedModel:
    """In half precision on a GPU: only to be read from."""
    on_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    return load(model, dtype="bfloat16" if on_gpu else "float32", device=device)
