"""GRPO on a model of a few thousand weights, in this process."""

import random
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from holdfast.config.rl import RlConfig
from holdfast.training.rl import RlPrompt, train_rl
from holdfast_studies.worlds.arithmetic import ArithmeticWorld, Size
from holdfast_studies.worlds.arithmetic_tokenizer import arithmetic_tokenizer

WORLD = ArithmeticWorld(base=3, largest=Size(3, 1), max_attempts=2)
TOKENIZER = arithmetic_tokenizer(WORLD)


def save_policy(path: Path) -> Path:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENIZER), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, tie_word_embeddings=True, initializer_range=0.3, pad_token_id=TOKENIZER.pad_token_id,
        bos_token_id=TOKENIZER.bos_token_id, eos_token_id=TOKENIZER.eos_token_id,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(path)
    TOKENIZER.save_pretrained(path)
    return path


def asked(num):
    rng = random.Random(1)
    return [WORLD.draw(Size(2 + index % 2, 1), rng) for index in range(num)]


def shortness(replies):
    """A reward that any model can learn at once: stop early."""
    assert all(reply.turns and reply.reference for reply in replies)
    return [1.0 / (1 + len(reply.text.split())) for reply in replies]


def saving(folder, run, **changes):
    steps = {"steps": 4, "save_every": 2, "prompts_per_step": 4, "group": 4, "lr": 1e-2, "max_new_tokens": 10}
    made = {"base": 3, "largest": "3x1", "sizes": ["2x1", "3x1"], "num": 8}
    model = {"name": str(folder), "device": "cpu"}
    return RlConfig.model_validate(
        {"run": str(run), "model": model, "rl": steps, "task": "arithmetic", "task_options": made, **changes}
    )


def trained(config, num=16, reward=shortness):
    prompts = [RlPrompt(WORLD.prompt(each), str(WORLD.value(each))) for each in asked(num)]
    return train_rl(config, prompts, reward, say=lambda _: None)
