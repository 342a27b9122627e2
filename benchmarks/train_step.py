"""One optimizer step: our objectives and anchors against our sft, and our sft against TRL's, measured in one run.

    python -m benchmarks.train_step [--json FILE]

A random Llama with a quarter of its parameters in the head, as SmolLM2 has, on rows of several turns. Every variant takes
the same steps in turn, round after round, so that a busy moment of the machine hits all of them; the median step counts.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, TrainerCallback
from transformers.utils import logging

from holdfast.config import TrainConfig
from holdfast.training import train
from holdfast.worlds import SafetyWorld
from holdfast.worlds.tokenizer import build_tokenizer

BATCH, STEPS, WARM_UP = 8, 7, 2
SIZES: dict[str, Any] = {
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
}
NUM_VOCAB = 8192


class StepClock(TrainerCallback):
    """CPU seconds between the ends of steps, the first few left out. On one thread a busy machine does not change them."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note the time at the end of a step."""
        self.ends.append(time.process_time())

    @property
    def seconds(self) -> list[float]:
        """Seconds of every step after the warm-up."""
        return [b - a for a, b in zip(self.ends[WARM_UP - 1 :], self.ends[WARM_UP:], strict=False)]


def make_inputs(folder: Path) -> tuple[Path, Path]:
    """A random model, and conversations of several turns."""
    tokenizer = build_tokenizer()
    torch.manual_seed(0)
    special: dict[str, Any] = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": 0,
    }
    model = LlamaForCausalLM(LlamaConfig(vocab_size=NUM_VOCAB, tie_word_embeddings=True, **SIZES, **special))
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    asks = SafetyWorld().requests("train", "recipe", 200)
    rng = random.Random(0)
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
        for _ in range(BATCH * STEPS):
            turns = [turn for ask in rng.sample(asks, rng.randint(2, 4)) for turn in ask.turns]
            file.write(json.dumps({"messages": [{"role": t.speaker, "content": t.visible} for t in turns]}) + "\n")
    return folder / "model", folder / "rows.jsonl"


VARIANTS: dict[str, dict[str, Any]] = {
    "sft": {"objective": "sft"},
    "csft, cached anchor": {"objective": "csft", "anchor": {"cache": "light", "cache_hidden": False}},
    "csft_pa, cached anchor": {"objective": "csft_pa", "anchor": {"cache": "full"}},
    "csft_pa, second model": {"objective": "csft_pa", "anchor": {"via": "model"}},
    "lora sft": {"objective": "sft", "lora": {"r": 16}},
    "lora csft_pa, adapters off": {"objective": "csft_pa", "lora": {"r": 16}, "anchor": {"via": "adapter_off"}},
}


def ours(folder: Path, model: Path, rows: Path, name: str, round_number: int) -> list[float]:
    """Step times of a variant through the real trainer."""
    variant = VARIANTS[name]
    anchor = dict(variant.get("anchor", {}))
    if "cache" in anchor:
        anchor["cache"] = str(folder / anchor["cache"])
    config = TrainConfig.model_validate(
        {
            "run": str(folder / f"{name}-{round_number}".replace(" ", "-").replace(",", "")),
            "model": str(model),
            "anchor": anchor,
            "streams": [{"data": str(rows), "objective": variant["objective"]}],
            "training": {"batch_size": BATCH, "micro_batch": BATCH, "log_every": 100, "lr": 1e-4},
            "lora": variant.get("lora"),
        }
    )
    clock = StepClock()
    train(config, say=lambda _: None, progress=False, callbacks=[clock])
    return clock.seconds


def trl_sft(folder: Path, model: Path, rows: Path) -> list[float]:
    """The same steps by TRL's SFTTrainer, with the loss on assistant turns as ours."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    from holdfast.data import read_traces
    from holdfast.models import load
    from holdfast.tokens import tokenize_all

    loaded = load(str(model))
    tokenised, _ = tokenize_all(read_traces(rows).traces, loaded.tokenizer)
    labels = [[i if r else -100 for i, r in zip(row.ids, row.roles, strict=True)] for row in tokenised]
    data = Dataset.from_dict({"input_ids": [row.ids for row in tokenised], "labels": labels})
    arguments = SFTConfig(
        output_dir=str(folder / "trl"),
        per_device_train_batch_size=BATCH,
        max_steps=STEPS,
        learning_rate=1e-4,
        logging_steps=100,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        max_length=None,
        bf16=False,
        gradient_checkpointing=False,
    )
    clock = StepClock()
    SFTTrainer(
        loaded.model, arguments, train_dataset=data, processing_class=loaded.tokenizer, callbacks=[clock]
    ).train()
    return clock.seconds


def anchor_forward(model: Path, rows: Path) -> list[float]:
    """A forward pass of a second model on the same batches, without autograd."""
    from holdfast.data import read_traces
    from holdfast.models import load_tokenizer
    from holdfast.tokens import pad, tokenize_all

    tokenised, _ = tokenize_all(read_traces(rows).traces, load_tokenizer(str(model)))
    network = AutoModelForCausalLM.from_pretrained(model).eval()
    seconds = []
    for start in range(0, len(tokenised), BATCH):
        inputs = pad(tokenised[start : start + BATCH], 0).model_inputs()
        begun = time.process_time()
        with torch.no_grad():
            network(**inputs)
        seconds.append(time.process_time() - begun)
    return seconds[WARM_UP:]


def measure(rounds: int) -> dict[str, float]:
    """Median seconds of every variant, on one thread."""
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    seconds_of: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model, rows = make_inputs(folder)
        for round_number in range(rounds):
            seconds_of["TRL SFTTrainer"] += trl_sft(folder, model, rows)
            for name in VARIANTS:
                seconds_of[name] += ours(folder, model, rows, name, round_number)
            seconds_of["anchor forward"] += anchor_forward(model, rows)
    return {name: statistics.median(seconds) for name, seconds in seconds_of.items()}


def ratios(seconds: dict[str, float]) -> list[dict[str, Any]]:
    """The figures with goals, then the rest."""
    sft = seconds["sft"]
    goals = [
        ("sft / TRL SFTTrainer", sft / seconds["TRL SFTTrainer"], 1.05),
        ("csft with cached anchor / sft", seconds["csft, cached anchor"] / sft, 1.05),
        ("csft_pa with cached anchor / sft", seconds["csft_pa, cached anchor"] / sft, 1.15),
        ("csft_pa with second model / (sft + anchor forward)",
         seconds["csft_pa, second model"] / (sft + seconds["anchor forward"]), 1.10),
        ("LoRA csft_pa with adapters off / (LoRA sft + anchor forward)",
         seconds["lora csft_pa, adapters off"] / (seconds["lora sft"] + seconds["anchor forward"]), 1.10),
    ]  # fmt: skip
    return [{"ratio": name, "measured": round(value, 3), "goal": goal} for name, value, goal in goals]


def table(rows: list[dict[str, Any]], seconds: dict[str, float]) -> Table:
    """Ratios against goals; milliseconds underneath, for orientation only."""
    shown = Table("ratio", "measured", "goal", title="one optimizer step", header_style="bold", box=None)
    for row in rows:
        shown.add_row(row["ratio"], f"{row['measured']:.2f}", f"<= {row['goal']:.2f}")
    for name, value in seconds.items():
        shown.add_row(f"[dim]{name}[/dim]", f"[dim]{1e3 * value:.0f} ms[/dim]", "")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the rows there ('-': standard output)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    seconds = measure(options.rounds)
    rows = ratios(seconds)
    if options.json == "-":
        print(json.dumps(rows, indent=1))
        return
    Console().print(table(rows, seconds))
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
