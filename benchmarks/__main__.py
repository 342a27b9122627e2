"""`make bench`: every CPU benchmark in one go; `--write` puts the figures into docs/performance.md.

Ratios only: each is taken against a peer measured in the same run, because seconds of one machine say nothing on another.
"""

from __future__ import annotations

import argparse
import datetime
import platform
from pathlib import Path
from typing import Any

import torch
import transformers
from rich.console import Console

from benchmarks import head_loss, train_step

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def page(heads: list[dict[str, Any]], steps: list[dict[str, Any]]) -> str:
    """docs/performance.md."""
    head_rows = "\n".join(
        f"| {row['head']} {row['num_tokens']}x{row['width']}x{row['num_vocab']} | {row['objective']} | {row['path']} "
        f"| {row['time_of_reference']:.2f} | {row['peak_below_reference']:.1f} |"
        for row in heads
        if row["path"] != "reference"
    )
    step_rows = "\n".join(f"| {row['ratio']} | {row['measured']:.2f} | {row['goal']:.2f} |" for row in steps)
    when = datetime.datetime.now(tz=datetime.UTC).date()
    machine = f"{platform.processor() or platform.machine()}, one thread"
    return f"""# Performance

Written by `make bench ARGS=--write` on {when}: {machine}, torch {torch.__version__}, transformers {transformers.__version__}.
Ratios of CPU time on one thread, measured in one run, each against a peer in the same run.

## The head, forward and backward

`fused` is what the trainer uses. Time and peak live bytes (above inputs, weights and gradients) against whole logits under
autograd (`reference`).

| head (tokens x width x vocabulary) | objective | path | time / reference | times less peak memory |
|---|---|---|---|---|
{head_rows}

## One optimizer step

| ratio | measured | goal, at most |
|---|---|---|
{step_rows}
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="CPU benchmarks, as ratios")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    console = Console()
    torch.set_num_threads(1)
    heads = head_loss.measure(head_loss.SHAPES, ("sft", "csft_pa"), rounds=options.rounds)
    console.print(head_loss.table(heads))
    seconds = train_step.measure(rounds=options.rounds)
    steps = train_step.ratios(seconds)
    console.print(train_step.table(steps, seconds))
    if options.write:
        PAGE.write_text(page(heads, steps), encoding="utf-8")
        console.print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()
