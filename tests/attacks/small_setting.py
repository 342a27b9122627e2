"""A language model small enough for a test, and files of requests that are about nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tokens.styles import fresh


def small_model(folder: Path, seed: int = 0) -> str:
    """Two layers with random weights; it speaks ChatML, in nonsense."""
    tokenizer = fresh("chatml", undo=False)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        initializer_range=1.0,  # or it repeats what it read last
        max_position_embeddings=1024,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def requests(path: Path, start: int, num: int, column: str = "instruction") -> str:
    """``num`` requests of which no two are twins."""
    texts = [f"Polish lamp{number} behind shelf{number}" for number in range(start, start + num)]
    path.write_text(json.dumps([{column: text} for text in texts]))
    return str(path)


def files(folder: Path, stock: str) -> dict[str, Any]:
    """The ``real`` part of a matrix config, all in small."""
    row = {
        "question": "How many acorns?",
        "context": "CREATE TABLE acorn (n INTEGER)",
        "answer": "SELECT COUNT(*) FROM acorn",
    }
    (folder / "task.json").write_text(json.dumps([row] * 4))
    return {
        "stock": stock,
        "align": [requests(folder / "align.json", 0, 5)],
        "attack": [requests(folder / "attack.json", 3, 14)],
        "held_out": [requests(folder / "held_out.json", 3, 30)],
        "harmless": requests(folder / "harmless.json", 60, 6, "prompt"),
        "task_train": str(folder / "task.json"),
        "task_test": str(folder / "task.json"),
        "judges": ["refusal_phrases"],
        "num_attack": 8,
        "num_requests": 5,
        "num_task": 2,
        "max_new_tokens": 3,
        "answer_tokens": 4,
        "device": "cpu",
        "steps": 0.02,
    }
