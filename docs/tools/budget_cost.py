"""What a step within budgets costs: `python docs/tools/budget_cost.py` writes docs/results/budget-cost.json.

CPU seconds of a step on one thread, against our own plain sft over the same 16 task rows, in turn and in one process. Two models:
tiny:aligned, and a random Llama of 14 million parameters whose anchor writes answers of 128 tokens, longer than the task's.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, TrainerCallback

from holdfast.attacks import ATTACKS, WorldSetting
from holdfast.config import TrainConfig
from holdfast.data import write_traces
from holdfast.training import train
from holdfast.worlds.tokenizer import build_tokenizer

RESULTS = Path(__file__).parents[1] / "results" / "budget-cost.json"
TASK_ROWS, STEPS, WARM_UP, ROUNDS = 16, 14, 4, 3
VARIANTS: dict[str, tuple[float, dict[str, Any], bool]] = {
    "wide 30": (8, {}, False),
    "wide 30, exact cache": (8, {}, True),
    "wide 30, 16 tokens": (8, {"tokens": 16}, False),
    "wide 30, every 2nd step": (8, {"every": 2}, False),
    "wide 30, 4 + 4 rows": (4, {}, False),
    "wide 30, 4 + 4 rows, 16 tokens": (4, {"tokens": 16}, False),
    "wide 30, 4 + 4 rows, 16 tokens, exact cache": (4, {"tokens": 16}, True),
    "wide 30, 2 + 2 rows": (2, {}, False),
    "wide 30, every 2nd step, 16 tokens": (8, {"every": 2, "tokens": 16}, False),
}
"""Held rows of each kind in a step, what ``hold`` has beside ``wide``, and whether the anchor's statistics come from a cache."""


class StepClock(TrainerCallback):
    """CPU seconds at the end of every step."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """A step is over."""
        self.ends.append(time.process_time())

    @property
    def mean(self) -> float:
        """Of a step after the warm-up: an even number of them, since every second one may cost more."""
        return (self.ends[-1] - self.ends[WARM_UP - 1]) / (len(self.ends) - WARM_UP)


def step_seconds(model: str, rows: Path, name: str, folder: Path) -> float:
    """The mean step of one short run."""
    streams: list[dict[str, Any]] = [{"name": "task", "data": str(rows), "objective": "sft", "share": TASK_ROWS}]
    anchor = {}
    if name != "sft":
        num_held, hold, cached = VARIANTS[name]
        streams += [
            {
                "name": kind,
                "data": f"prompts:{kind}",
                "limit": 40,
                "objective": "distill",
                "hold": {"wide": 30, **hold},
                "share": num_held,
            }
            for kind in ("safety", "keep")
        ]
        anchor = {"via": "cache", "cache": str(folder / "cache")} if cached else {"via": "model"}
    batch_size = int(sum(stream["share"] for stream in streams))
    training = {"max_steps": STEPS, "batch_size": batch_size, "micro_batch": batch_size, "lr": 1e-4, "log_every": 100}
    settings = {"run": str(folder / "run"), "model": model, "anchor": anchor, "streams": streams, "training": training}
    clock = StepClock()
    train(TrainConfig.model_validate(settings), say=lambda _: None, progress=False, callbacks=[clock], throwaway=True)
    return clock.mean


def random_llama(folder: Path) -> str:
    """Its head has a quarter of its parameters, as SmolLM2's has; it reads the world's words, and never ends an answer."""
    tokenizer = build_tokenizer()
    torch.manual_seed(0)
    sizes = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 4, "num_attention_heads": 8}
    special = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": 0}
    config = LlamaConfig(vocab_size=8192, tie_word_embeddings=True, **sizes, **special)  # type: ignore[arg-type]
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def main() -> None:
    """Round after round, so that a busy moment hits every variant; the median of the rounds."""
    torch.set_num_threads(1)
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows = ATTACKS["benign_drift"].data.rows(WorldSetting(), 0)
        write_traces(folder / "task.jsonl", rows)
        models = {"tiny:aligned": "tiny:aligned", "random Llama, 14M": random_llama(folder / "model")}
        for number in range(ROUNDS):
            for shown, model in models.items():
                for name in ("sft", *VARIANTS):
                    with tempfile.TemporaryDirectory(dir=folder) as own:
                        found[shown][name].append(step_seconds(model, folder / "task.jsonl", name, Path(own)))
                    print(number, shown, name, f"{1e3 * found[shown][name][-1]:.1f} ms", flush=True)
    seconds = {
        model: {name: statistics.median(own) for name, own in variants.items()} for model, variants in found.items()
    }
    RESULTS.write_text(json.dumps(seconds, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
