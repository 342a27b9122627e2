"""A builder by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from transformers import PreTrainedTokenizerBase

from holdfast.config import InputError
from holdfast.models import LoadedModel
from holdfast.records import Trace
from holdfast.traces.align import Align
from holdfast.traces.errors import Builder, RightAnswer
from holdfast.traces.perturb import Perturb
from holdfast.traces.refusals import BENIGN_STARTS, WrongStart
from holdfast.traces.tasks import read_references
from holdfast.traces.uniform import Uniform

BuilderName = Literal["perturb", "align", "random", "refusal"]


def choose_builder(
    name: BuilderName,
    rows: Sequence[Trace],
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    model: LoadedModel | None = None,
    starts: str | None = None,
    temperature: float = 1.0,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Builder:
    """The builder of that name. ``random`` needs a tokenizer, ``perturb`` uses one if it is given, ``align`` needs a model.

    ``starts`` names rows whose answers are the wrong beginnings of ``refusal``. Raises ``InputError`` where something is missing.
    """
    references = [RightAnswer(row) for row in rows]
    match name:
        case "perturb":
            return Perturb(references, _sayable_by(tokenizer)) if tokenizer is not None else Perturb(references)
        case "random" if tokenizer is not None:
            return Uniform(tokenizer)
        case "align" if model is not None:
            return Align.sampled(model, references, temperature=temperature, seed=seed, on_progress=on_progress)
        case "refusal":
            return WrongStart([RightAnswer(row).text for row in read_references(starts)] if starts else BENIGN_STARTS)
    raise InputError(f"--builder {name}: needs --model")


def _sayable_by(tokenizer: PreTrainedTokenizerBase) -> Callable[[str], bool]:
    """A test whether the vocabulary can write a word without its token for unknown words."""
    return lambda word: tokenizer.unk_token_id not in tokenizer(word, add_special_tokens=False)["input_ids"]
