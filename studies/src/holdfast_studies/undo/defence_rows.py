"""Rows for undo as a defence. Their texts are made at run time and are written to no file."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from holdfast.config import ModelSettings
from holdfast.generation import generate
from holdfast.judging import find_judge, verdicts
from holdfast.models import load
from holdfast.records import Role, Segment, Trace, Turn, answer, context
from holdfast.tokens import Encoder
from holdfast_studies.undo.defence_config import DefenceConfig

RESET = "<RESET>"
BENIGN_TOKENS = 96  # of an answer of the model to a harmless request


@dataclass(frozen=True)
class Material:
    """What rows are made from: (request, refusal), (request, answer), and harmful beginnings as text of many tokens."""

    refused: tuple[tuple[str, str], ...]
    answered: tuple[tuple[str, str], ...]
    harmful: dict[str, str]  # the stock model's answer, by request


def answers(config: DefenceConfig, name: str, prompts: Sequence[str], max_new_tokens: int) -> tuple[str, ...]:
    """What a model answers before any training, greedily. Every arm needs the same answers, so each is asked for once."""
    return _answers(name, tuple(prompts), max_new_tokens, config.model, config.eval_dtype, config.eval_batch)


@cache
def _answers(
    name: str, prompts: tuple[str, ...], max_new_tokens: int, how: ModelSettings, dtype: str, batch_size: int
) -> tuple[str, ...]:
    loaded = load(name, dtype=dtype, device=how.device, attention=how.attention)
    requests = [(context("user", prompt),) for prompt in prompts]
    written = generate(loaded.model, loaded.tokenizer, requests, max_new_tokens=max_new_tokens, batch_size=batch_size)
    return tuple(completion.text.strip() for completion in written)


def material(config: DefenceConfig, harmful: Sequence[str], harmless: Sequence[str]) -> Material:
    """The model's own refusals and answers, and the stock model's beginnings. Requests that the model answers are left out."""
    judge = find_judge(config.judge)
    said = answers(config, config.model.name, harmful, config.reply_tokens)
    judged = verdicts(judge, [((context("user", ask),), text) for ask, text in zip(harmful, said, strict=True)])
    refused = [
        (ask, text)
        for ask, text, verdict in zip(harmful, said, judged, strict=True)
        if verdict.outcome == "refused" and text
    ]
    kept = answers(config, config.model.name, harmless, BENIGN_TOKENS)
    begun = beginnings(config, [ask for ask, _ in refused])
    return Material(
        tuple((ask, text) for ask, text in refused if ask in begun),
        tuple((ask, text) for ask, text in zip(harmless, kept, strict=True) if text),
        begun,
    )


def beginnings(config: DefenceConfig, requests: Sequence[str]) -> dict[str, str]:
    """The stock model's answers, as long as a beginning may be. Requests without an answer are left out."""
    longest = max(*config.begun, *config.depths)
    written = answers(config, config.stock, requests, longest + 8)
    return {ask: text for ask, text in zip(requests, written, strict=True) if text}


def first_tokens(encoder: Encoder, text: str, num: int) -> str:
    """The text of the first ``num`` tokens, or of fewer where a letter would be cut in two."""
    ids = encoder.continuation(text)[:num]
    while ids and "\ufffd" in encoder.decode(ids):
        ids.pop()
    return encoder.decode(ids)


def rows_for(arm: str, made: Material, config: DefenceConfig, encoder: Encoder, seed: int) -> list[Trace]:
    """The rows of one arm and seed, shuffled.

    A harmful request comes with its refusal, and with a harmful beginning that is taken back before it. A harmless request
    comes with its answer, and with a harmful beginning that is taken back before it. ``augmented`` has no token to take
    back with, so its harmless rows are plain.
    """
    luck = random.Random(f"undo defence {seed}")  # the same beginnings for every arm
    rows: list[Trace] = []
    others = list(made.harmful.values())
    for ask, refusal in made.refused:
        rows.append(Trace((context("user", ask), answer(refusal))))
        for _ in range(config.copies):
            begun = first_tokens(encoder, made.harmful[ask], luck.randint(*config.begun))
            rows.append(Trace((context("user", ask), _taken_back(arm, begun, refusal))))
    for ask, text in made.answered:
        rows.append(Trace((context("user", ask), answer(text))))
        begun = first_tokens(encoder, luck.choice(others), luck.randint(*config.begun))
        if arm != "augmented":
            rows.append(Trace((context("user", ask), _taken_back(arm, begun, text))))
    luck.shuffle(rows)
    return rows


def _taken_back(arm: str, begun: str, right: str) -> Turn:
    if not begun:
        return answer(right)
    error, corrected = Segment(Role.ERROR, begun), Segment(Role.CORRECTION, right)
    if arm == "augmented":
        return Turn("assistant", (error, Segment(Role.CORRECTION, f" {right}")))
    if arm == "reset":
        return Turn("assistant", (error, Segment(Role.CORRECTION, f"{RESET}{right}")))
    return Turn("assistant", (error, Segment(Role.UNDO), corrected))
