"""The short training loop of the embedded models: rows in, weights out, the same every time on the same machine."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from holdfast.records import Trace

IGNORED = -100
Row = tuple[list[int], int]
"""Token ids, and how many of them are the prompt."""


def tiny_config(tokenizer: PreTrainedTokenizerBase) -> LlamaConfig:
    """A Llama of ~0.2 million parameters with tied embeddings."""
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        initializer_range=0.05,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def encode(tokenizer: PreTrainedTokenizerBase, traces: Sequence[Trace]) -> list[Row]:
    """Token ids of whole conversations; the last turn is what will be learned."""
    prompts, wholes = [], []
    for trace in traces:
        messages = [{"role": turn.speaker, "content": turn.visible} for turn in trace.turns]
        prompts.append(tokenizer.apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True))
        wholes.append(tokenizer.apply_chat_template(messages, tokenize=False))
    lengths = [len(ids) for ids in tokenizer(prompts)["input_ids"]]
    return list(zip(tokenizer(wholes)["input_ids"], lengths, strict=True))


def fit(
    model: LlamaForCausalLM,
    rows: Sequence[Row],
    *,
    num_steps: int,
    batch_size: int,
    lr: float,
    warmup: int = 50,
    seed: int = 0,
    on_step: Callable[[int, float], None] | None = None,
) -> None:
    """AdamW with warm-up and a cosine to nothing; mean cross-entropy of the response tokens."""
    rng = random.Random(f"order/{seed}")
    decayed = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98))
    model.train()
    batches = batches_of(rows, batch_size, rng)
    for step in range(num_steps):
        if not batches:
            batches = batches_of(rows, batch_size, rng)
        scale = min(1.0, (step + 1) / warmup) * 0.5 * (1 + math.cos(math.pi * step / num_steps))
        for group in optimizer.param_groups:
            group["lr"] = lr * scale
        ids, attention, labels = padded(batches.pop(), model.config.pad_token_id)
        hidden = model.model(input_ids=ids, attention_mask=attention, use_cache=False).last_hidden_state[:, :-1]
        wanted = labels[:, 1:] != IGNORED
        loss = torch.nn.functional.cross_entropy(model.lm_head(hidden[wanted]), labels[:, 1:][wanted])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if on_step is not None:
            on_step(step, loss.item())
    model.eval()


def batches_of(rows: Sequence[Row], size: int, rng: random.Random) -> list[list[Row]]:
    """All rows once, in batches of similar length (less padding), the batches in random order."""
    order = sorted(rng.sample(range(len(rows)), len(rows)), key=lambda index: len(rows[index][0]))
    batches = [[rows[index] for index in order[start : start + size]] for start in range(0, len(order), size)]
    rng.shuffle(batches)
    return batches


def padded(batch: Sequence[Row], pad_id: int) -> tuple[Tensor, Tensor, Tensor]:
    """Right-padded ids, attention mask and labels; prompt and padding carry no label."""
    longest = max(len(ids) for ids, _ in batch)
    ids_BT = torch.full((len(batch), longest), pad_id)
    labels_BT = torch.full((len(batch), longest), IGNORED)
    attention_BT = torch.zeros((len(batch), longest), dtype=torch.long)
    for index, (ids, num_prompt) in enumerate(batch):
        row = torch.tensor(ids)
        ids_BT[index, : len(ids)] = row
        labels_BT[index, num_prompt : len(ids)] = row[num_prompt:]
        attention_BT[index, : len(ids)] = 1
    return ids_BT, attention_BT, labels_BT
