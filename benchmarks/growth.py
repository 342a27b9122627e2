"""How cost grows on a CPU: one quantity at a time is made larger, all else stays; the exponent is the slope in log-log.

    python -m benchmarks --growth [--most-rows 1000000]

CPU time on one thread and peak resident memory, each point in a process of its own, so that neither a busy machine nor an
earlier point counts. An exponent of 0 costs nothing more, 1 grows as the quantity does.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.random_models import Shape, make_model
from holdfast import objectives
from holdfast.attacks import find_attack, find_defence, run_matrix
from holdfast.attacks.cell_files import write_cell
from holdfast.attacks.keys import cell_key
from holdfast.attacks.scale import Scale
from holdfast.data import read_traces
from holdfast.data.rows import file_rows
from holdfast.models import load_tokenizer
from holdfast.records import Cell, Role
from holdfast.tokens import TokenRow, tokenize_all
from holdfast.training.collate import Collator, StreamRow
from holdfast.training.loss import StepLoss, StreamLoss
from holdfast.training.plan import StepPlan
from holdfast.training.streams import NumberedRows, Part
from holdfast.view.folders import find_runs
from holdfast.view.summaries import Watched
from holdfast.worlds import SafetyWorld

ROWS = (1_000, 10_000, 100_000, 1_000_000)  # the last takes ten minutes
VOCABULARIES, WIDTHS, STREAMS = (4096, 16384, 65536), (64, 128, 256, 512), (1, 2, 4, 8)
CELLS, RUNS = (10, 100, 1000), (10, 100, 1000)
ROW_TOKENS, STEP_ROWS, STEPS = 64, 16, 3
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Point:
    """What one size costs."""

    seconds: float
    megabytes: float = 0.0


Figures = dict[str, Point]
"""By what was done."""


def measured(work: Callable[[], Any]) -> tuple[Point, Any]:
    """CPU seconds, and how far the resident memory rose above what it was before."""
    before = resident("VmRSS")
    CLEAR.write_text("5", encoding="ascii")  # the peak counts from here
    begun = time.process_time()
    result = work()
    return Point(time.process_time() - begun, max(0.0, resident("VmHWM") - before)), result


def resident(name: str) -> float:
    line = next(line for line in STATUS.read_text(encoding="ascii").splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def rows(size: int) -> Figures:
    """Rows of 56 tokens in a file: checked one by one, read as a dataset, and tokenised and planned for training."""
    requests = SafetyWorld().requests("train", "recipe", 200)
    tokenizer = load_tokenizer("tiny:aligned")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for number in range(size):
                turns = (*requests[number % 200].turns, *requests[(7 * number + 3) % 200].turns)
                messages = [{"role": turn.speaker, "content": turn.visible} for turn in turns]
                file.write(json.dumps({"messages": messages}) + "\n")
        streamed, _ = measured(lambda: sum(1 for _ in file_rows(path)))
        read, dataset = measured(lambda: read_traces(path))
    tokenised, (ready, _) = measured(lambda: tokenize_all(dataset.traces, tokenizer))
    plan = StepPlan.make([ready.lengths], batch_size=32, shares=[1.0], epochs=1.0, max_steps=None, seed=0)
    collator, of_run = Collator(0, (False,)), NumberedRows([Part(0, 0, ready)])
    some = range(0, plan.num_steps, max(1, plan.num_steps // 20))
    step, _ = measured(lambda: [collator([of_run[row] for row in plan.rows_of_step(at)]) for at in some])
    return {
        "lines parsed, none kept": streamed,
        "read and validated": read,
        "tokenised": tokenised,
        "one step's batch": Point(step.seconds / len(some), step.megabytes),
    }


def model_step(shape: Shape, num_streams: int = 1) -> Figures:
    """Forward, backward and AdamW on 16 rows of 64 tokens, divided among so many streams."""
    model = make_model(shape, torch.float32, "cpu").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    roles = [int(Role.PROMPT)] * 16 + [int(Role.RESPONSE)] * (ROW_TOKENS - 16)
    ids = torch.randint(shape.num_vocab, (STEP_ROWS, ROW_TOKENS), generator=torch.Generator().manual_seed(0)).tolist()
    made = [TokenRow(row, roles, list(range(ROW_TOKENS))) for row in ids]
    dealt = [StreamRow(row, number * num_streams // STEP_ROWS, number, number) for number, row in enumerate(made)]
    batch = Collator(0, (False,) * num_streams)(dealt)
    sft = objectives.REGISTRY["sft"]
    streams = [
        StreamLoss(str(number), lambda stats, *_: sft.function(stats), 1.0, needs_anchor=False, want=sft.reads)
        for number in range(num_streams)
    ]
    loss = StepLoss(streams, None, plain=True)

    def step() -> None:
        loss(model, batch, batch.counts, progress=0.0, want_grad_norm=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    points = [measured(step)[0] for _ in range(STEPS)]
    return {"a step": Point(statistics.median(p.seconds for p in points), max(p.megabytes for p in points))}


def shape_of(width: int = 64, num_vocab: int = 4096) -> Shape:
    """A small Qwen2."""
    sizes = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": 2, "num_attention_heads": 4}
    more = {"num_key_value_heads": 4, "vocab_size": num_vocab, "tie_word_embeddings": True}
    return Shape("growing", "qwen2", {**sizes, **more})


def vocabulary(size: int) -> Figures:
    """A step at width 64, by size of the vocabulary."""
    return model_step(shape_of(num_vocab=size))


def width(size: int) -> Figures:
    """A step with a vocabulary of 4,096, by width."""
    return model_step(shape_of(width=size))


def streams(size: int) -> Figures:
    """A step on the same rows, by number of streams."""
    return model_step(shape_of(width=256), size)


def cells(size: int) -> Figures:
    """A matrix whose cells are all there: names, files, table and what the report reads."""
    attack, defence, scale = find_attack("harmful_examples"), find_defence("sft"), Scale()
    cell_key(attack, defence, 0, scale)  # the hash of the code and of the model's files is taken once a process
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cells").mkdir()
        for seed in range(size):
            path = Path(folder) / "cells" / f"{cell_key(attack, defence, seed, scale)}.json"
            write_cell(path, Cell(attack.name, defence.name, seed, "world"))
        point, table = measured(
            lambda: run_matrix([attack], [defence], range(size), folder, scale=scale, num_workers=1)
        )
        assert len(table) == size
        assert all(cell.status == "ok" for cell in table)
    return {"all cells found": point}


def runs(size: int) -> Figures:
    """Finished runs of 200 steps under one folder: the first look at all of them, and a later one when nothing has changed."""
    line = json.dumps({"step": 1, "epoch": 0.5, "loss": 1.0, "nll": 1.0, "lr": 1e-3})
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for number in range(size):
            folder = root / f"run-{number}"
            folder.mkdir()
            (folder / "config.yaml").write_text("run: x\nmodel: {name: tiny:aligned}\n", encoding="utf-8")
            (folder / "steps.jsonl").write_text(f"{line}\n" * 200, encoding="utf-8")
        watched: dict[str, Watched] = {}

        def look() -> None:
            for folder in find_runs(root):
                watched.setdefault(folder.id, Watched(folder)).refresh(folder, frozenset())

        first, again = measured(look)[0], measured(look)[0]
    return {"first look": first, "later look": again}


QUANTITIES: dict[str, tuple[Callable[[int], Figures], Sequence[int]]] = {
    "rows": (rows, ROWS),
    "vocabulary": (vocabulary, VOCABULARIES),
    "width": (width, WIDTHS),
    "streams": (streams, STREAMS),
    "cells": (cells, CELLS),
    "runs": (runs, RUNS),
}


def measure(most_rows: int) -> list[dict[str, Any]]:
    """One row for every measurement of a quantity: its points and its exponents."""
    torch.set_num_threads(1)
    rows = []
    for name, (_, sizes) in QUANTITIES.items():
        points = {size: _alone(name, size) for size in sizes if name != "rows" or size <= most_rows}
        for what in points[min(points)]:
            chosen = [size for size, point in points.items() if what in point]
            line = [points[size][what] for size in chosen]
            row = {
                "quantity": name,
                "what": what,
                "sizes": chosen,
                "seconds": [float(f"{point.seconds:.3g}") for point in line],
                "megabytes": [round(point.megabytes, 1) for point in line],
                "time exponent": exponent(chosen, [point.seconds for point in line]),
                "memory exponent": exponent(chosen, [point.megabytes for point in line], 1.0),
            }
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


def _alone(name: str, size: int) -> Figures:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_point, (name, size))


def _point(name: str, size: int) -> Figures:
    torch.set_num_threads(1)
    return QUANTITIES[name][0](size)


def exponent(sizes: Sequence[int], costs: Sequence[float], least: float = 1e-4) -> float | None:
    """The slope of a straight line through the logarithms; None where the least cost is too small to measure."""
    if min(costs) < least:
        return None
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    return round(statistics.linear_regression(x, y).slope, 2)
