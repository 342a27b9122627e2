"""A step of the recipe `defended` on a CPU: in bfloat16 against float32, and against plain sft on the same task rows.

    python -m benchmarks.defended_cpu MODEL [--json benchmarks/results/defended_cpu.json]

MODEL is a folder or a .gguf file whose weights are in bfloat16. LoRA of rank 16, 4 task rows and 2 of each held stream in a step,
no vetting; held answers are given, so the anchor is not asked. Every way takes the same steps in turn, round after round, on one
thread. In bfloat16 a CPU wants instructions for it (``lscpu | grep bf16``); elsewhere the first ratio says how much it loses.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.ledger import committed, cpu_machine, finish, model_name, options, provenance, write
from benchmarks.train_step import WARM_UP, StepClock
from holdfast.config import TrainConfig
from holdfast.training import train

STEPS, ROUNDS, SEED_WORDS = WARM_UP + 3, 1, "sun moon river stone bread glass paper cloud wheel garden".split()
ROWS = {"task": (4, 90, 16), "safety": (2, 16, 60), "keep": (2, 16, 60)}
"""Of every stream: rows in a step, words of a prompt, words of an answer."""
WAYS = {"sft": ("task",), "defended": tuple(ROWS)}
DTYPES = ("bfloat16", "float32")


def write_rows(folder: Path) -> None:
    """Rows of words in a fixed order, no two alike, of lengths as SQL rows and held answers have them."""
    for number, (name, (in_step, asked, answered)) in enumerate(ROWS.items()):
        rows = []
        for row in range(in_step * STEPS):
            words = [
                SEED_WORDS[(row * 7 + place * (number + 3)) % len(SEED_WORDS)] for place in range(asked + answered)
            ]
            rows.append({"prompt": " ".join([str(row), *words[:asked]]), "completion": " ".join(words[asked:])})
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def step_seconds(model: str, folder: Path, way: str, dtype: str, run: Path) -> list[float]:
    """CPU seconds of every step after the warm-up, through the real trainer."""
    names = WAYS[way]
    streams = [
        {
            "name": name,
            "data": str(folder / f"{name}.jsonl"),
            "objective": "sft" if name == "task" else "distill",
            "share": ROWS[name][0],
        }
        for name in names
    ]
    config = TrainConfig.model_validate(
        {
            "run": str(run),
            "model": {"name": model, "dtype": dtype, "device": "cpu"},
            "streams": streams,
            "lora": {"r": 16, "alpha": 32},
            "training": {"batch_size": sum(ROWS[name][0] for name in names), "max_steps": STEPS, "log_every": STEPS},
        }
    )
    clock = StepClock()
    train(config, say=lambda _: None, progress=False, callbacks=[clock], throwaway=True)
    return clock.seconds


def measure(model: str, rounds: int) -> list[dict[str, Any]]:
    """A row for every way and dtype: the median of its steps."""
    torch.set_num_threads(1)
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_rows(folder)
        for number in range(rounds):
            for way in WAYS:
                for dtype in DTYPES:
                    seconds[way, dtype] += step_seconds(model, folder, way, dtype, folder / f"{way}-{dtype}-{number}")
    return [
        {
            "model": model_name(model),
            "way": way,
            "dtype": dtype,
            "CPU seconds of a step": round(statistics.median(own), 3),
        }
        for (way, dtype), own in seconds.items()
    ]


def ratios(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lower is better."""
    took = {(row["way"], row["dtype"]): row["CPU seconds of a step"] for row in steps}
    model = steps[0]["model"]
    pairs = {
        "LoRA defended, bfloat16 / float32": (("defended", "bfloat16"), ("defended", "float32")),
        "LoRA sft, bfloat16 / float32": (("sft", "bfloat16"), ("sft", "float32")),
        "bfloat16, LoRA defended / our plain sft": (("defended", "bfloat16"), ("sft", "bfloat16")),
    }
    return [
        {"ratio": f"{model}: a step, {name}", "measured": round(took[one] / took[other], 3), "goal": None}
        for name, (one, other) in pairs.items()
    ]


def main() -> None:
    given = options(__doc__, ROUNDS, "Qwen2.5-Coder-0.5B", needs_model=True)
    steps = measure(given.model, given.rounds)
    print("\n".join(map(json.dumps, steps)), flush=True)
    rows = ratios(steps)
    if given.json:
        write(Path(given.json), {**provenance(given.model), "machine": cpu_machine(), "ratios": rows, "steps": steps})
    finish(rows, committed("defended_cpu"))


if __name__ == "__main__":
    main()
