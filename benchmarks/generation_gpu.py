"""Generation on a GPU against transformers' best: a static cache with torch.compile and CUDA graphs, and its plain loop.

    python -m benchmarks.generation_gpu --model FOLDER [--json benchmarks/results/generation_gpu.json]

What an audit asks of a model: 200 prompts of mixed length, 48 new tokens, greedy, bf16, one batch. All ways get the same
prompts in the same order; ours also pays for chat template, tokenizer and capture, every time. transformers' compilation is
left out of its time and stated beside it. Tokens per second count what was written up to the end of each text.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig

from benchmarks.gpu_clock import machine
from benchmarks.ledger import committed, finish, provenance, write
from holdfast.generation import generate, turns_of
from holdfast.generation.conversations import ids_to_continue
from holdfast.generation.graphs import until_stop
from holdfast.models import load
from holdfast.worlds import SafetyWorld

NUM_PROMPTS, NUM_NEW, RUNS = 200, 48, 3
GOAL = 0.70  # of the tokens per second of transformers' best


def prompts() -> list[str]:
    """Requests of the embedded world, one to seven of them in a prompt."""
    texts = [row.turns[0].visible for row in SafetyWorld(0).requests("test", "recipe", 7 * NUM_PROMPTS)]
    return [" ".join(texts[7 * index : 7 * index + 1 + index % 7]) for index in range(NUM_PROMPTS)]


class Case:
    """A model and the prompts, as text and as a padded batch, longest first."""

    def __init__(self, folder: str) -> None:
        self.loaded = load(folder, device="cuda", dtype="bfloat16")
        self.model: Any = self.loaded.model.eval()
        self.prompts = prompts()
        tokenizer = self.loaded.tokenizer
        ids = sorted((ids_to_continue(turns_of(prompt), tokenizer) for prompt in self.prompts), key=len, reverse=True)
        width = self.width = len(ids[0])
        self.stop = tokenizer.eos_token_id
        self.ids = torch.tensor([[self.stop] * (width - len(row)) + row for row in ids], device="cuda")
        self.mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids], device="cuda")

    def ours(self) -> list[tuple[int, ...]]:
        """Generate with our code, from text to text."""
        written = generate(
            self.model, self.loaded.tokenizer, self.prompts, max_new_tokens=NUM_NEW, batch_size=NUM_PROMPTS
        )
        return [completion.token_ids for completion in written]

    def theirs(self, **options: Any) -> list[tuple[int, ...]]:
        """Generate with transformers, from tensors to tensors."""
        settings = GenerationConfig(
            max_new_tokens=NUM_NEW, do_sample=False, eos_token_id=self.stop, pad_token_id=self.stop, **options
        )
        with torch.inference_mode():
            written = self.model.generate(input_ids=self.ids, attention_mask=self.mask, generation_config=settings)
        rows = [until_stop(row, [self.stop]) for row in written[:, self.width :].tolist()]
        return [tuple(token for token in row if token != self.stop) for row in rows]


def measure(case: Case) -> list[dict[str, Any]]:
    """Tokens per second of every way, after a first call that is timed by itself."""
    ways: dict[str, Callable[[], list[tuple[int, ...]]]] = {
        "ours": case.ours,
        "transformers, growing cache": case.theirs,
        "transformers, static cache, compiled": lambda: case.theirs(cache_implementation="static"),
    }
    rows = []
    for name, work in ways.items():
        first, written = timed(work)
        seconds = statistics.median(timed(work)[0] for _ in range(RUNS))
        num = sum(map(len, written))
        rows.append(
            {
                "way": name,
                "tokens per second": round(num / seconds),
                "seconds": round(seconds, 4),
                "first call, seconds": round(first, 3),
                "tokens": num,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def timed(work: Callable[[], list[tuple[int, ...]]]) -> tuple[float, list[tuple[int, ...]]]:
    torch.cuda.synchronize()
    begun = time.perf_counter()
    written = work()
    torch.cuda.synchronize()
    return time.perf_counter() - begun, written


def ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Times per token, so that lower is better here too."""
    ours, plain, _ = rates = [row["tokens per second"] for row in rows]
    return [
        {
            "ratio": "generation: time per token / transformers' best",
            "measured": round(max(rates[1:]) / ours, 3),
            "goal": round(1 / GOAL, 2),
        },
        {
            "ratio": "generation: time per token / transformers' growing cache",
            "measured": round(plain / ours, 3),
            "goal": None,
        },
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, help="a folder: SmolLM2-135M-Instruct for the committed figures")
    parser.add_argument("--json", metavar="FILE", help="write everything there")
    options = parser.parse_args()
    rows = measure(Case(options.model))
    results: dict[str, Any] = {**provenance(options.model), "machine": machine(), "ratios": ratios(rows), "ways": rows}
    if options.json:
        write(Path(options.json), results)
    finish(results["ratios"], committed("generation_gpu"))


if __name__ == "__main__":
    main()
