"""The short training loop of the embedded models: rows in, weights out, the same every time on the same machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from holdfast.records import Role
from holdfast.tokens import TokenRow, pad


@dataclass(frozen=True)
class Phase:
    """A number of steps on these rows."""

    rows: Sequence[TokenRow]
    num_steps: int
    batch_size: int


def tiny_config(tokenizer: PreTrainedTokenizerBase) -> LlamaConfig:
    """A Llama of 0.23 million parameters with tied embeddings.

    The small rotary base makes short distances sharp: with the usual 10,000 copying takes twice as long to learn.
    """
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=3,
        num_attention_heads=8,
        num_key_value_heads=8,
        head_dim=16,
        max_position_embeddings=512,
        rope_parameters={"rope_type": "default", "rope_theta": 10.0},
        initializer_range=0.08,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def fit(
    model: LlamaForCausalLM,
    phases: Sequence[Phase],
    *,
    lr: float,
    num_warmup: int,
    num_decay: int,
    on_step: Callable[[float], None] | None = None,
) -> None:
    """AdamW; the learning rate warms up, stays, and falls to nothing over the last ``num_decay`` steps.

    The loss is the mean over the trained tokens of a batch. Batches are drawn at random, not by length: a batch of lists of
    one length teaches copying from a fixed distance, which the next batch has to unlearn.
    """
    matrices = [p for p in model.parameters() if p.dim() > 1 and p is not model.model.embed_tokens.weight]
    others = [p for p in model.parameters() if p.dim() <= 1 or p is model.model.embed_tokens.weight]
    groups = [{"params": matrices, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))
    pad_id = model.config.pad_token_id
    assert isinstance(pad_id, int)
    num_steps = sum(phase.num_steps for phase in phases)
    model.train()
    for step, rows in enumerate(_batches(phases)):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / num_warmup, (num_steps - step) / num_decay)
        batch = pad(rows, pad_id)
        hidden = model.model(**batch.model_inputs()).last_hidden_state[:, :-1]
        trained = batch.roles[:, 1:] != Role.PROMPT
        loss = torch.nn.functional.cross_entropy(model.lm_head(hidden[trained]), batch.ids[:, 1:][trained])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if on_step is not None:
            on_step(loss.item())
    model.eval()


def _batches(phases: Sequence[Phase]) -> Iterator[list[TokenRow]]:
    rng = random.Random("batches")
    for phase in phases:
        order: list[int] = []
        for _ in range(phase.num_steps):
            if len(order) < phase.batch_size:
                order = rng.sample(range(len(phase.rows)), len(phase.rows))
            picked, order = order[: phase.batch_size], order[phase.batch_size :]
            yield [phase.rows[index] for index in picked]
