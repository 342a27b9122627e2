"""Log-probabilities of tokens that a model in this process reads or has written, and how each token reads as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from holdfast.generation.typewriter import HALF_CHARACTER, WINDOW, num_common
from holdfast.models import LoadedModel
from holdfast.serve.logprobs import LEAST, Token, Tokens

CHUNK = 256  # positions whose whole distribution is in memory at once


@torch.inference_mode()
def score(loaded: LoadedModel, ids: Sequence[int], *, start: int, num_top: int) -> Tokens:
    """The tokens from ``start`` on at temperature 1, each with its ``num_top`` likeliest alternatives.

    Their text is read as if nothing stood before ``start``.
    """
    inputs = torch.tensor([list(ids)], device=loaded.device)
    logits = loaded.model(input_ids=inputs).logits[0, :-1]
    rows: list[tuple[float | None, list[int], list[float]]] = [(None, [], [])] if start == 0 else []
    for begin in range(max(start - 1, 0), len(ids) - 1, CHUNK):
        logps = logits[begin : begin + CHUNK].float().log_softmax(-1)
        written = logps.gather(1, inputs[0, begin + 1 : begin + 1 + len(logps), None])[:, 0]
        top = logps.topk(min(num_top, logps.shape[1]))
        rows += zip(written.tolist(), top.indices.tolist(), top.values.tolist(), strict=True)
    tokens = []
    for position, (logp, others, values) in enumerate(rows, start):
        before = list(ids[max(start, position - WINDOW) : position])
        pairs = zip(others, values, strict=True)
        alternatives = tuple((read(loaded.tokenizer, before, other), max(value, LEAST)) for other, value in pairs)
        text = read(loaded.tokenizer, before, ids[position])
        tokens.append(Token(text, None if logp is None else max(logp, LEAST), alternatives))
    return tuple(tokens)


def read(tokenizer: Any, before: list[int], token: int) -> str:
    """The text that a token adds to those before it. A character of several tokens comes with the last of them."""
    head, whole = (str(tokenizer.decode(ids, skip_special_tokens=False)) for ids in (before, [*before, token]))
    return whole[num_common(head, whole) :].rstrip(HALF_CHARACTER)
