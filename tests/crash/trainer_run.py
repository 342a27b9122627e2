"""The real trainer as a run that can be killed: two streams, an anchor, dropout."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from crash.kills import SAVE_EVERY, Run
from holdfast.config import TrainConfig
from holdfast.training import train
from holdfast.training.checkpoints import durable
from holdfast.worlds.tokenizer import build_tokenizer


def trainer_run(place: Path) -> Run:
    """``run(directory, until_step, on_point)`` with a small model and a few rows, made in ``place``."""
    model = _small_model(place / "model")
    data = place / "rows.jsonl"
    with data.open("w", encoding="utf-8") as file:
        for index in range(24):
            turns = [("user", "copy : " + "sun " * (index % 5 + 1)), ("assistant", "sun " * (index % 5 + 1))]
            file.write(json.dumps({"messages": [{"role": r, "content": c} for r, c in turns]}) + "\n")

    def run(directory: Path, until_step: int, on_point: Callable[[str], None]) -> None:
        durable.at_point = on_point
        config = TrainConfig.model_validate(
            {
                "run": str(directory),
                "model": {"name": str(model), "device": "cpu"},
                "streams": [
                    {"data": str(data), "objective": "csft_pa", "name": "task"},
                    {"data": "world:safety/train/forbidden", "objective": "distill", "name": "hold", "limit": 4},
                ],
                "training": {"batch_size": 4, "max_steps": until_step, "lr": 1e-2, "save_every": SAVE_EVERY, "keep": 1},
            }
        )
        train(config, say=lambda _: None, progress=False)

    return run


def _small_model(folder: Path) -> Path:
    """Small, and with dropout: a generator that came back wrong would show in the weights."""
    tokenizer = build_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        attention_dropout=0.2,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
