"""The head and its loss: fused and chunked against whole logits, in time and in live bytes, measured in one run.

    python benchmarks/head_loss.py [--json FILE]

Time is that of the CPU on one thread, so that a busy neighbour does not count. Peak bytes are counted by torch's
allocator events, above the resident hidden states and weights and without the gradients that every path must return.
Shapes are those of real heads with few tokens (and, for Llama-3, an eighth of its width): about a minute in all.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler greets on stderr otherwise

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from holdfast import objectives
from holdfast.heads import Group, Reference, TokenStats, fused_loss, token_stats

PATHS = ("reference", "chunked", "fused")
Grads = tuple[Tensor, ...]


@dataclass(frozen=True)
class Shape:
    name: str
    width: int
    num_vocab: int
    num_tokens: int


SHAPES = (Shape("SmolLM2", 576, 49152, 1536), Shape("Llama-3", 512, 128256, 768))


@dataclass(frozen=True)
class Case:
    """A policy's and an anchor's head on the same tokens."""

    hidden: Tensor
    weight: Tensor
    targets: Tensor
    ref_hidden: Tensor
    ref_weight: Tensor

    @classmethod
    def make(cls, shape: Shape) -> Case:
        random = torch.Generator().manual_seed(0)
        hidden = torch.randn(shape.num_tokens, shape.width, generator=random)
        weight = 0.1 * torch.randn(shape.num_vocab, shape.width, generator=random)
        ref_hidden = hidden + 0.1 * torch.randn(shape.num_tokens, shape.width, generator=random)
        targets = torch.randint(shape.num_vocab, (shape.num_tokens,), generator=random)
        return cls(hidden.requires_grad_(), weight.requires_grad_(), targets, ref_hidden, weight.detach() * 1.01)

    def grads(self, name: str, path: str) -> Grads:
        """One forward and backward of the mean loss."""
        return torch.autograd.grad(self.loss(name, path), (self.hidden, self.weight))

    def loss(self, name: str, path: str) -> Tensor:
        """The mean loss of an objective, by one of the paths."""
        num_tokens = len(self.targets)
        function, want = objectives.REGISTRY[name], objectives.stats_read(name)
        position = torch.arange(num_tokens)

        def objective(stats: TokenStats, rows: slice) -> Tensor:
            return function(stats, position=position[rows]) if "csft" in name else function(stats)

        anchor = (self.ref_hidden, self.ref_weight) if objectives.needs_anchor(name) else (None, None)
        if path == "fused":
            reference = None if anchor[0] is None else Reference(hidden=anchor[0], weight=anchor[1])
            group = Group(0, num_tokens, objective, reference, want=want)
            scale = torch.full((num_tokens,), 1 / num_tokens)
            return fused_loss(self.hidden, self.weight, self.targets, [group], scale=scale).loss
        given = {"ref_hidden": anchor[0], "ref_weight": anchor[1]}
        options: dict[str, Any] = {**given, "backend": path, "want": want}
        return objective(token_stats(self.hidden, self.weight, self.targets, **options), slice(None)).mean()


def peak_bytes(work: Callable[[], Grads]) -> int:
    """The most bytes alive at once during ``work``, above those before it and without what it returns."""
    return measured(work)[0]


def measured(work: Callable[[], Grads]) -> tuple[int, float]:
    """Peak bytes and CPU seconds."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        start = time.process_time()
        returned = work()
        seconds = time.process_time() - start
    results: Any = recorded.profiler
    events = [event for event in results.kineto_results.events() if event.name() == "[memory]"]
    alive = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        alive += event.nbytes()
        peak = max(peak, alive)
    return peak - sum(tensor.nbytes for tensor in returned), seconds


def measure(shapes: Sequence[Shape], names: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """One row per shape, objective and path; ratios are against ``reference`` of the same shape and objective."""
    rows = []
    for shape in shapes:
        case = Case.make(shape)
        for name in names:
            seconds, peaks = dict.fromkeys(PATHS, math.inf), dict.fromkeys(PATHS, 0)
            for _ in range(rounds):
                for path in PATHS:  # side by side, so that a slow moment of the machine hits all of them
                    peaks[path], took = measured(partial(case.grads, name, path))
                    seconds[path] = min(seconds[path], took)
            rows += [row(shape, name, path, seconds, peaks) for path in PATHS]
    return rows


def row(shape: Shape, name: str, path: str, seconds: dict[str, float], peaks: dict[str, int]) -> dict[str, Any]:
    return {
        "head": shape.name,
        "width": shape.width,
        "num_vocab": shape.num_vocab,
        "num_tokens": shape.num_tokens,
        "objective": name,
        "path": path,
        "milliseconds": round(1e3 * seconds[path], 1),
        "peak_mib": round(peaks[path] / 2**20, 1),
        "time_of_reference": round(seconds[path] / seconds["reference"], 3),
        "peak_below_reference": round(peaks["reference"] / peaks[path], 2),
    }


def table(rows: Sequence[dict[str, Any]]) -> Table:
    shown = Table(
        "head",
        "tokens x width x V",
        "objective",
        "path",
        title="head loss, forward and backward; time and peak against reference",
        header_style="bold",
        box=None,
    )
    for column in ("ms", "time", "MiB", "peak"):
        shown.add_column(column, justify="right")
    for row in rows:
        shown.add_row(
            row["head"],
            f"{row['num_tokens']}x{row['width']}x{row['num_vocab']}",
            row["objective"],
            row["path"],
            f"{row['milliseconds']:.0f}",
            f"{row['time_of_reference']:.2f}x",
            f"{row['peak_mib']:.0f}",
            f"1/{row['peak_below_reference']:.1f}",
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the rows there ('-': standard output)")
    parser.add_argument("--rounds", type=int, default=1, help="times to run each path; the fastest is shown")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = measure(SHAPES, ("sft", "csft_pa"), options.rounds)
    if options.json == "-":
        print(json.dumps(rows, indent=1))
        return
    Console().print(table(rows))
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
