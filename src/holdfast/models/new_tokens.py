"""New tokens such as ``<UNDO>``: the tokenizer learns the word, the model a row for it, begun in a chosen way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from holdfast.config import InputError

Init = Literal["mean", "description", "related", "mixed"]
DESCRIPTION = "delete the last word and take it back"
RELATED = ("undo", "delete", "back", "wrong", "no")


def add_tokens(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    tokens: Sequence[str] = ("<UNDO>",),
    *,
    init: Init = "mean",
    description: str = DESCRIPTION,
    related: Sequence[str] = RELATED,
) -> list[int]:
    """Add tokens and return their ids; those that exist already are left as they are.

    A new row of the embedding (and of an untied head) begins as the mean of all rows, of the description's tokens, of the
    related words' tokens, or as the average of the last two (``mixed``). No random numbers are drawn. Embedding rows beyond
    the tokenizer's words (a vocabulary padded for speed) are used before the matrix grows; it never shrinks.
    """
    new = [token for token in dict.fromkeys(tokens) if token not in tokenizer.get_vocab()]
    if new:
        sources = _source_ids(tokenizer, init, description, related)
        num_words = len(tokenizer)
        tokenizer.add_tokens(new, special_tokens=True)
        _grow(model, tokenizer)
        ids = [_id(tokenizer, token) for token in new]
        for weight in _token_matrices(model):
            with torch.no_grad():
                weight[ids] = _initial_row(weight, sources, num_words)
    return [_id(tokenizer, token) for token in tokens]


def _source_ids(
    tokenizer: PreTrainedTokenizerBase, init: Init, description: str, related: Sequence[str]
) -> list[list[int]]:
    """The groups of tokens whose means are averaged; no group stands for all words."""
    groups: list[list[int]] = []
    if init in ("description", "mixed"):
        groups.append(_known_ids(tokenizer, [description], "description"))
    if init in ("related", "mixed"):
        groups.append(_known_ids(tokenizer, related, "related"))
    if init not in ("mean", "description", "related", "mixed"):
        raise InputError(f"init '{init}': expected mean, description, related or mixed")
    return groups


def _known_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], field: str) -> list[int]:
    ids = [index for text in texts for index in tokenizer(text, add_special_tokens=False)["input_ids"]]
    known = [index for index in ids if index != tokenizer.unk_token_id]
    if not known:
        raise InputError(
            f"{field}: the tokenizer knows none of the words of '{' '.join(texts)}'; choose others, or init=mean"
        )
    return known


def _id(tokenizer: PreTrainedTokenizerBase, token: str) -> int:
    index = tokenizer.convert_tokens_to_ids(token)
    assert isinstance(index, int)
    return index


def _grow(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    if len(tokenizer) > num_token_rows(model):
        # mean_resizing would draw the new rows from a normal distribution: we set them ourselves.
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)


def num_token_rows(model: PreTrainedModel) -> int:
    """How many tokens the model has rows for: at least as many as its tokenizer has words."""
    return len(_token_matrices(model)[0])


def _token_matrices(model: PreTrainedModel) -> list[Tensor]:
    """The embedding and, where it is a matrix of its own, the head."""
    modules = [model.get_input_embeddings(), model.get_output_embeddings()]
    weights = [module.weight for module in modules if module is not None]
    matrices = [weight for weight in weights if isinstance(weight, Tensor)]
    tied = len(matrices) == 2 and matrices[0].data_ptr() == matrices[1].data_ptr()
    return matrices[:1] if tied else matrices


def _initial_row(weight: Tensor, sources: Sequence[Sequence[int]], num_words: int) -> Tensor:
    """The new row, computed in float32: a mean over 100,000 bfloat16 rows would lose its digits."""
    if not sources:
        return weight[:num_words].float().mean(0).to(weight.dtype)
    means = [weight[list(group)].float().mean(0) for group in sources]
    return torch.stack(means).mean(0).to(weight.dtype)
