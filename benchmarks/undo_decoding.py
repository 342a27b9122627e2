"""Decoding with ``<UNDO>`` against plain decoding of the same model: tokens per second, measured in one run.

    python -m benchmarks.undo_decoding [--model FOLDER] [--json FILE]

Plain is ``model.generate`` of transformers. Every way writes the same number of tokens for the same prompts; the ones with
undo write scripts in which every eighth token takes one back, at different places in different rows. CPU time on one thread,
the ways in turn, round after round; the fastest round counts.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig, LlamaForCausalLM

from holdfast.generation import UndoDecoder, UndoDecoding, UndoLimits
from holdfast.tokens import Context

GOALS = {"soft": 0.95, "hard": 0.90}
NUM_ROWS, NUM_NEW, UNDO_EVERY = 8, 96, 8


def small_model() -> Any:
    """A random Llama, a quarter of whose parameters are in the head, as in SmolLM2."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8192,
        hidden_size=320,
        intermediate_size=864,
        num_hidden_layers=8,
        num_attention_heads=5,
        num_key_value_heads=5,
        tie_word_embeddings=True,
        max_position_embeddings=1024,
    )
    return LlamaForCausalLM(config).eval()


class Case:
    """Prompts of different lengths, and what is written after them."""

    def __init__(self, model: Any) -> None:
        rng = random.Random(0)
        self.model, self.undo_id = model, model.config.vocab_size - 1
        self.prompts = [[rng.randrange(3, 4000) for _ in range(24 + 4 * row)] for row in range(NUM_ROWS)]
        self.scripts = [
            [
                self.undo_id if (step + row) % UNDO_EVERY == UNDO_EVERY - 1 else rng.randrange(3, 4000)
                for step in range(NUM_NEW)
            ]
            for row in range(NUM_ROWS)
        ]

    def plain(self) -> int:
        """Write with transformers' own loop."""
        width = max(map(len, self.prompts))
        ids = torch.tensor([[0] * (width - len(row)) + row for row in self.prompts])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in self.prompts])
        settings = GenerationConfig(max_new_tokens=NUM_NEW, do_sample=False, eos_token_id=None, pad_token_id=0)
        with torch.inference_mode():
            written = self.model.generate(input_ids=ids, attention_mask=mask, generation_config=settings)
        return int(written.shape[1] - width) * NUM_ROWS

    def undoing(self, context: Context) -> int:
        """Write with our decoder, by scripts."""
        how = UndoDecoding(NUM_NEW, context, limits=UndoLimits(NUM_NEW, NUM_NEW))
        decoder = UndoDecoder(self.model, self.undo_id, (), 0, how)
        return sum(1 for _ in decoder.steps(self.prompts, self.scripts))


def measure(model: Any, rounds: int) -> list[dict[str, Any]]:
    """One row per context, as a ratio to plain."""
    case = Case(model)
    ways: dict[str, Callable[[], int]] = {
        "plain": case.plain,
        "soft": lambda: case.undoing("soft"),
        "hard": lambda: case.undoing("hard"),
    }
    best = dict.fromkeys(ways, math.inf)
    for _ in range(rounds + 1):  # the first round warms up, and may even be the fastest
        for name, work in ways.items():
            start = time.process_time()
            num_tokens = work()
            best[name] = min(best[name], (time.process_time() - start) / num_tokens)
    return [
        {
            "context": name,
            "tokens_per_second": round(1 / best[name], 1),
            "of_plain": round(best["plain"] / best[name], 3),
            "goal": goal,
        }
        for name, goal in GOALS.items()
    ]


def ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Times per token, so that lower is better as in the other benchmarks."""
    return [
        {
            "ratio": f"decoding with <UNDO>, {row['context']} context / plain",
            "measured": round(1 / row["of_plain"], 3),
            "goal": round(1 / row["goal"], 2),
        }
        for row in rows
    ]


def table(rows: list[dict[str, Any]]) -> Table:
    shown = Table(
        "context", "tokens/s", "of plain", "goal, at least", title="decoding with <UNDO>", box=None, header_style="bold"
    )
    for row in rows:
        shown.add_row(
            row["context"], f"{row['tokens_per_second']:.0f}", f"{row['of_plain']:.2f}x", f"{row['goal']:.2f}x"
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", help="a folder; by default a random Llama of 12 million parameters")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write the rows there ('-': standard output)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32) if options.model else small_model()
    rows = measure(model.eval(), options.rounds)
    if options.json == "-":
        print(json.dumps(rows, indent=1))
        return
    Console().print(table(rows))
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
