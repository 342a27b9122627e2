"""A model reads its own answers: how likely it finds them, and its yes or no to questions about them.

The answers to one task share their prompt, and the questions about one answer share the answer. Each is read once: keys and
values of what came before stay in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from holdfast.config import InputError
from holdfast.models import LoadedModel
from holdfast.records import Role, Trace, Turn, answer, context
from holdfast.tokens import Encoder, prompt_ids, tokenize
from holdfast_studies.oversight.drawing import Read, Row

YES, NO = ("Yes", "yes"), ("No", "no")
NOTHING = -1e9  # the log-probability of an empty answer
ROWS = {"cuda": 64, "cpu": 8}  # answers read together


def reader(questions: Mapping[str, str]) -> Read:
    """A function for ``draw_pools``: of every answer ``mean_logp`` and, for each question, the model's own P(yes)."""

    def read(loaded: LoadedModel, pairs: Sequence[tuple[Sequence[Turn], str]]) -> list[Row]:
        by_turns: dict[tuple[Turn, ...], list[str]] = {}
        for turns, text in pairs:
            by_turns.setdefault(tuple(turns), []).append(text)
        told = {turns: _of_task(loaded, turns, texts, questions) for turns, texts in by_turns.items()}
        return [told[tuple(turns)][text] for turns, text in pairs]

    return read


def _of_task(
    loaded: LoadedModel, turns: tuple[Turn, ...], texts: Sequence[str], questions: Mapping[str, str]
) -> dict[str, Row]:
    """A row for every different answer to one task, by its text. An empty answer is not read: its P(yes) is 0."""
    told: dict[str, Row] = {"": {"mean_logp": NOTHING, **dict.fromkeys(questions, 0.0)}}
    filled = [text for text in dict.fromkeys(texts) if text]
    if not filled:
        return told
    prompt = prompt_ids(turns, loaded.tokenizer)
    answers = {text: _answer_ids(loaded, turns, text) for text in filled}
    suffixes = {name: _suffix(loaded, turns, filled, question) for name, question in questions.items()}
    order = sorted(filled, key=lambda text: len(answers[text]))
    rows = ROWS.get(loaded.device.type, 8)
    for start in range(0, len(order), rows):
        some = order[start : start + rows]
        told |= dict(zip(some, _read(loaded, prompt, [answers[text] for text in some], suffixes), strict=True))
    return told


def _answer_ids(loaded: LoadedModel, turns: tuple[Turn, ...], text: str) -> list[int]:
    """The tokens that the model would have to write, including the end of its turn."""
    row = tokenize(Trace((*turns, answer(text))), loaded.tokenizer)
    return [token for token, role in zip(row.ids, row.roles, strict=True) if role != Role.PROMPT]


def _suffix(loaded: LoadedModel, turns: tuple[Turn, ...], texts: Sequence[str], question: str) -> list[int]:
    """The tokens between the end of an answer and the model's yes or no; they are the same after every answer.

    They are taken from the first answer whose tokens stay the same when the whole conversation is tokenised at once.
    """
    for text in texts:
        said = tokenize(Trace((*turns, answer(text))), loaded.tokenizer).ids
        ids = prompt_ids((*turns, context("assistant", text), context("user", question)), loaded.tokenizer)
        if ids[: len(said)] == said:
            return ids[len(said) :]
    raise InputError("the chat template rewrites an answer once a question follows it: the model cannot be asked")


@torch.inference_mode()
def _read(
    loaded: LoadedModel, prompt: list[int], answers: Sequence[list[int]], suffixes: Mapping[str, list[int]]
) -> list[Row]:
    """Read the prompt once, then the answers side by side, then each question after all of them."""
    model: Any = loaded.model
    cache = DynamicCache(config=model.config)
    first = model(input_ids=_tensor([prompt], loaded), past_key_values=cache, use_cache=True, logits_to_keep=1).logits
    cache.batch_repeat_interleave(len(answers))
    width, lengths = max(map(len, answers)), [len(ids) for ids in answers]
    ids = _tensor([row + [0] * (width - len(row)) for row in answers], loaded)
    seen = torch.arange(width, device=loaded.device)[None] < _tensor(lengths, loaded)[:, None]
    before = torch.ones(len(answers), len(prompt), dtype=torch.bool, device=loaded.device)
    mask = torch.cat([before, seen], 1)
    positions = (len(prompt) + torch.arange(width, device=loaded.device)).expand(len(answers), -1)
    logits = _fed(model, ids, mask, positions, cache)
    rows: list[Row] = []
    for number, length in enumerate(lengths):
        after = torch.cat([first[0, -1:], logits[number, : length - 1]]).float()
        logp = after.gather(1, ids[number, :length, None]).squeeze(1) - after.logsumexp(1)
        rows.append({"mean_logp": float(logp.mean())})
    del logits
    for name, suffix in suffixes.items():
        question = _tensor(suffix, loaded).expand(len(answers), -1)
        at = len(prompt) + _tensor(lengths, loaded)[:, None] + torch.arange(len(suffix), device=loaded.device)
        last = _fed(
            model, question, torch.cat([mask, torch.ones_like(question, dtype=torch.bool)], 1), at, cache, keep=1
        )
        cache.crop(-len(suffix))
        for row, yes in zip(rows, _p_yes(loaded, last[:, -1].float()), strict=True):
            row[name] = yes
    return rows


def _fed(model: Any, ids: Tensor, mask: Tensor, positions: Tensor, cache: Any, keep: int = 0) -> Tensor:
    """The logits after the last ``keep`` tokens, or after all where that is 0."""
    output = model(
        input_ids=ids,
        attention_mask=mask.long(),
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=keep,
    )
    logits: Tensor = output.logits
    return logits


def _p_yes(loaded: LoadedModel, logits: Tensor) -> list[float]:
    """P(yes) among yes and no, with and without a capital letter."""
    encoder = Encoder(loaded.tokenizer)
    yes, no = (sorted({encoder.continuation(word)[0] for word in words}) for words in (YES, NO))
    odds = logits[:, yes].logsumexp(1) - logits[:, no].logsumexp(1)
    values: list[float] = odds.sigmoid().tolist()
    return values


def _tensor(values: Sequence[Any], loaded: LoadedModel) -> Tensor:
    return torch.tensor(values, device=loaded.device)
