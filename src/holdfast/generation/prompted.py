"""Answers to prompts from any model, plain or with undo: what `holdfast generate` and ``hf.generate`` do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from holdfast.config import InputError
from holdfast.config.arguments import checked
from holdfast.generation.answers import UndoLimits
from holdfast.generation.backtracking import UndoDecoding, generate_with_undo
from holdfast.generation.prompts import Prompt, listed_prompts
from holdfast.generation.sample import generate
from holdfast.generation.sampler import Progress
from holdfast.models import LoadedModel, as_loaded
from holdfast.records import Completion
from holdfast.tokens.encoding import Encoder


@checked("generate")
def generate_answers(
    model: str | LoadedModel | object,
    prompts: str | Iterable[Prompt],
    *,
    undo: bool = False,
    context: Literal["soft", "hard"] = "soft",
    begin: str | None = None,
    max_undos: int = 64,
    max_new_tokens: int = 256,
    temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int = 0,
    batch_size: int = 64,
    on_progress: Progress | None = None,
) -> list[Completion]:
    """One completion per prompt, in order; temperature 0 is greedy.

    ``model``: a name, a path, a loaded model or a finished run.
    ``prompts``: texts, or lists of messages. If one ends in an assistant turn the model goes on from it, and the completion
    holds what it adds.
    ``undo``: the model may take back what it wrote, and ``Completion.text`` is what is left. ``context``: what the model sees
    of it after that; ``begin``: text that every answer begins with and that can be taken back; ``max_undos``: per answer.

    Raises ``InputError`` for a model without an undo token, and for options that need ``undo``.
    """
    loaded = as_loaded(model)
    requests = listed_prompts(prompts)
    if not undo:
        if begin is not None or context != "soft":
            raise InputError("begin and context: they go with undo=True")
        return generate(
            loaded.model,
            loaded.tokenizer,
            requests,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_p=top_p,
            seed=seed,
            batch_size=batch_size,
            on_progress=on_progress,
        )
    how = UndoDecoding(max_new_tokens, context, temperature, top_p, seed, UndoLimits(per_answer=max_undos))
    return generate_with_undo(
        loaded.model,
        loaded.tokenizer,
        requests,
        how,
        begun=begun_with(loaded, begin, len(requests)),
        batch_size=batch_size,
        on_progress=on_progress,
    )


def begun_with(loaded: LoadedModel, begin: str | None, num: int) -> list[list[int]] | None:
    """The tokens of ``begin`` for every one of ``num`` answers; None where nothing was begun."""
    return None if begin is None else [Encoder(loaded.tokenizer).continuation(begin)] * num
