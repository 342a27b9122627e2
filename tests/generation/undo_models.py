"""A small real Llama with a word vocabulary that has ``<UNDO>``, and the oracles of what it should compute."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from holdfast.records import Role
from holdfast.tokens import TokenRow, pad, stack_context

VOCAB, UNDO = 40, 39


def small_llama(attention: str, dtype: torch.dtype = torch.float64) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.3,
        attn_implementation=attention,
        eos_token_id=2,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).to(dtype).eval()


def scripts(num_rows: int, num_steps: int, seed: int, undo_rate: float = 0.4) -> list[list[int]]:
    """Random answers: rows undo at different times and different amounts, at the very start too."""
    rng = random.Random(seed)
    return [
        [UNDO if rng.random() < undo_rate else rng.randrange(3, UNDO) for _ in range(num_steps)]
        for _ in range(num_rows)
    ]


@torch.no_grad()
def fresh_logits(model: LlamaForCausalLM, prompt: Sequence[int], answer: Sequence[int], context: str) -> Tensor:
    """Hard: a plain forward over the visible stack plus the undo just fed. Soft: over everything written."""
    shown: list[int] = []
    for token in answer:
        if token != UNDO or context == "soft":
            shown.append(token)
        elif shown:
            shown.pop()
    if context == "hard" and answer and answer[-1] == UNDO:
        shown.append(UNDO)
    return model(torch.tensor([[*prompt, *shown]]), use_cache=False).logits[0, -1]


@torch.no_grad()
def training_logits(model: LlamaForCausalLM, prompt: Sequence[int], answer: Sequence[int], context: str) -> Tensor:
    """The logits of every token of the answer under the mask and the positions that training uses; [len(answer), V]."""
    roles = [int(Role.PROMPT)] * len(prompt)
    roles += [int(Role.UNDO if token == UNDO else Role.RESPONSE) for token in answer]
    ids = [*prompt, *answer]
    positions = stack_context(roles).positions if context == "hard" else list(range(len(ids)))
    row = TokenRow(ids, roles, positions, "hard" if context == "hard" else "soft")
    batch = pad([row], 0, float_mask=model.config._attn_implementation == "eager")
    return model(**batch.model_inputs()).logits[0, len(prompt) :]
