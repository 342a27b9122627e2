"""`make bench`: every CPU benchmark in one go, then docs/performance.md.

A ratio more than a tenth above the committed one fails and leaves files and page as they were; ``--accept`` takes it.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from rich.console import Console

from benchmarks import growth, head_loss, own_python, page, train_step, undo_decoding
from benchmarks.ledger import RESULTS, committed, cpu_machine, finish, provenance, write
from holdfast.attacks.scale import Scale


def measure(rounds: int, console: Console) -> dict[str, Any]:
    """Everything that goes into benchmarks/results/cpu.json."""
    torch.set_num_threads(1)
    heads = head_loss.measure(head_loss.SHAPES, ("sft", "csft_pa"), rounds=rounds)
    console.print(head_loss.table(heads))
    seconds = train_step.measure(rounds=rounds)
    steps = train_step.ratios(seconds)
    console.print(train_step.table(steps, seconds))
    undo = undo_decoding.measure(undo_decoding.small_model(), rounds=rounds + 1)
    console.print(undo_decoding.table(undo))
    own = own_python.measure(Scale())
    ratios = [
        *steps,
        *undo_decoding.ratios(undo),
        {name: own[name] for name in ("ratio", "measured", "goal")},
        *head_ratios(heads),
    ]
    return {**provenance(), "machine": cpu_machine(), "ratios": ratios, "heads": heads, "own_python": own["longest"]}


def head_ratios(heads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Time and peak bytes of the path that the trainer uses, against whole logits."""
    rows: list[dict[str, Any]] = []
    for head in heads:
        if head["path"] == "fused":
            name = f"{head['head']} head, {head['objective']}"
            rows.append({"ratio": f"{name}: time / reference", "measured": head["time_of_reference"], "goal": None})
            peak = round(1 / head["peak_below_reference"], 3)
            rows.append({"ratio": f"{name}: peak bytes / reference", "measured": peak, "goal": None})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="CPU benchmarks, as ratios")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--accept", action="store_true", help="take ratios that are worse than the committed ones")
    parser.add_argument("--page", action="store_true", help="measure nothing: write the page from benchmarks/results")
    parser.add_argument("--growth", action="store_true", help="measure how cost grows instead")
    parser.add_argument("--most-rows", type=int, default=max(growth.ROWS), help="of --growth")
    options = parser.parse_args()
    console = Console()
    if options.growth:
        written = {**provenance(), "machine": cpu_machine()}
        write(RESULTS / "growth.json", {**written, "growth": growth.measure(options.most_rows)})
    elif not options.page:
        results = measure(options.rounds, console)
        finish(results["ratios"], None if options.accept else committed("cpu"))
        write(RESULTS / "cpu.json", results)
    page.PAGE.write_text(page.text(), encoding="utf-8")
    console.print(f"wrote {page.PAGE.name}")


if __name__ == "__main__":
    main()
