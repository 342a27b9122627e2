"""The first table of docs/performance.md, what a defended run costs, and how cost grows: Markdown out of the result files.

A figure whose file is not there yet is left out, and the table says which command measures it. A ``doubt`` that somebody wrote
into a file stands below the table until that file is measured anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Found = Mapping[str, Any]
Results = Mapping[str, Found | None]
DEFENDED = "defended_gpu"


def answers(results: Results, table: Callable[..., str]) -> str:
    """The page's first table: what a user asks first, each with its figure and where it comes from."""
    rows = [*_defended_rows(results.get(DEFENDED)), *_other_rows(results), *_growth_rows(results.get("growth"))]
    missing = (
        [f"Not measured yet, on a GPU: {', '.join(absent)}."] if (absent := _absent(results.get(DEFENDED))) else []
    )
    text = table(("what", "cost", "measured by"), [[what, cost, f"`{source}`"] for what, cost, source in rows])
    doubts = [f"Doubt: {figures['doubt']}." for figures in results.values() if figures and "doubt" in figures]
    return "\n\n".join(["## What will it cost me?", text, *doubts, *missing])


def _absent(results: Found | None) -> list[str]:
    """What the benchmark of defended runs would tell but has not measured yet."""
    known = results or {"steps": [], "memory": [], "answers": [], "grpo": []}
    parts = {
        "a defended step": bool(known["steps"]),
        "LoRA of 8B in 24 GB": any(row["model"].startswith("Llama") for row in known["memory"]),
        "preparation": any(row["part"] == "preparation" for row in known["answers"]),
        "requests a second of an audit of 1.5B": any(row["part"] == "audit" for row in known["answers"]),
        "seconds and memory of a GRPO step on 1.5B": bool(known["grpo"]),
    }
    return [name for name, is_there in parts.items() if not is_there]


def _defended_rows(results: Found | None) -> list[tuple[str, str, str]]:
    if results is None:
        return []
    source, known = "benchmarks.defended_gpu", {row["ratio"]: row["measured"] for row in results["ratios"]}
    rows: list[tuple[str, str, str]] = []

    def both(what: str, name: str, unit: str = "times") -> None:
        values = [
            f"{kind} {known[f'1.5B {kind}: {name}']:.2f}"
            for kind in ("full", "LoRA")
            if f"1.5B {kind}: {name}" in known
        ]
        if values:
            rows.append((what, f"{', '.join(values)} {unit}", source))

    both("a step of the recipe `defended` against plain sft", "a step, defended / our plain sft")
    both("the same with `hold: {every: 2, tokens: 16}`", "a step, defended, cheap held rows / our plain sft")
    both("our plain sft against TRL's SFTTrainer", "a step, our plain sft / TRL's SFT")
    both("peak memory of `defended` against plain sft", "peak, defended / our plain sft")
    names = {"Qwen2.5-Coder-1.5B": "1.5B, all weights, with an anchor", "Llama-3-8B": "8B, LoRA, with an anchor"}
    for row in results["memory"]:
        if "checkpointing" in row["way"]:
            rows.append(
                (f"memory of {names[row['model']]}, `gradient_checkpointing: true`", f"{row['peak GB']:.1f} GB", source)
            )
    for measured in results["answers"]:
        if measured["part"] == "preparation":
            cost = f"{measured['bfloat16']['seconds']:.0f} s in bfloat16, {measured['float32']['seconds']:.0f} s in float32"
            again = [measured[dtype].get("again s") for dtype in ("bfloat16", "float32")]
            if None not in again:  # results of before answers were kept have none
                cost += f"; {again[0]:.1f} s and {again[1]:.1f} s in the next run"
            else:
                cost += ", with answers of 64 tokens (the trainer asks for 128)"
            rows.append(
                (
                    f"preparation of 1.5B: {measured['prompts']} prompts answered, {measured['rows']} rows vetted",
                    cost,
                    source,
                )
            )
        else:
            ours, theirs = measured["requests per second"], measured["requests per second, transformers"]
            share = measured["judges' share"]
            cost = (
                f"{ours:.0f} requests a second (transformers' own generation: {theirs:.0f}); judges {share:.0%} of it"
            )
            rows.append(("an audit of 1.5B with two judges, 64 tokens a reply", cost, source))
    return rows


def _other_rows(results: Results) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    names = ("step_gpu", "first_answer", "defended_cpu", "audit", "grpo")
    steps, first, defended, audit, grpo = (results.get(name) for name in names)
    for row in (steps or {}).get("steps", []):
        if row["model"].startswith("Llama") and "sft" in row:
            ways = ("csft_pa, second model", "csft_pa, cached anchor")
            cost = ", ".join(f"{way.split(', ')[1]} {row[way] / row['sft']:.2f}" for way in ways if way in row)
            rows.append(
                (f"a step of `csft_pa` against plain sft ({row['model']})", f"{cost} times", "benchmarks.step_gpu")
            )
    if first is not None:
        measured = first["ratios"][0]["measured"]
        cost = f"{measured:.2f} times the CPU time of torch and transformers alone"
        rows.append(("first answer: `holdfast generate tiny:aligned`", cost, "benchmarks.first_answer"))
    if defended is not None:
        in_half, _, against_sft = (row["measured"] for row in defended["ratios"])
        cost = f"{in_half:.2f} times a step in float32; {against_sft:.2f} times plain sft"
        what = f"a step of the recipe `defended`, on a CPU, in bfloat16 ({defended['steps'][-1]['model']})"
        rows.append((what, cost, "benchmarks.defended_cpu"))
    if audit is not None:
        whole, judges = (row["measured"] for row in audit["ratios"][-2:])
        cost = f"{whole:.2f} times transformers' own generation; judges {judges:.1%} of it"
        what = f"an audit with two judges, on a CPU ({audit['audits'][-1]['model']})"
        rows.append((what, cost, "benchmarks.audit"))
    if grpo is not None:
        step, memory = (row["measured"] for row in grpo["ratios"][-2:])
        grown = f"memory of `tiny:aligned` after 200 steps: {memory:.2f} of that after 50"
        cost = f"{step:.2f} times the time of TRL's GRPOTrainer; {grown}"
        what = f"a token of a GRPO step, on a CPU ({grpo['steps'][-1]['model']})"
        rows.append((what, cost, "benchmarks.grpo"))
    return rows


def _growth_rows(results: Found | None) -> list[tuple[str, str, str]]:
    if results is None:
        return []
    by_what = {row["what"]: row for row in results["growth"]}
    read, tokenised = by_what["read and validated"], by_what["tokenised"]
    num_bytes = sum(2**20 * row["megabytes"][-1] / row["sizes"][-1] for row in (read, tokenised))
    milliseconds = sum(1e3 * row["seconds"][-1] / row["sizes"][-1] for row in (read, tokenised))
    cost = f"{milliseconds:.1f} ms and {num_bytes:.0f} bytes of memory a row of 56 tokens; the rest lies in temporary files"
    return [("rows before the first step: read, validated, tokenised", cost, "benchmarks --growth")]


RECIPE = """Random weights in the shape of Qwen2.5-Coder-1.5B. The recipe `defended`: 16 task rows of 512 tokens
and two held streams of 8 rows, 45 tokens of prompt and 16 to 112 of answer. All weights: float32 with bf16 autocast, the anchor
a second model; LoRA: bf16, the anchor is the model with its adapters off. Passes of 8 rows. The floor: our plain step's time
for as many operations, and the optimizer once. Bare products: cuBLAS on whole arrays, nothing else of a step."""


def defended(
    results: Found | None, origin: Callable[[Found], str], ratios: Callable[..., str], table: Callable[..., str]
) -> str:
    """Every figure of the benchmark of defended runs."""
    if results is None:
        return ""
    parts = [
        "### A defended run",
        f"{origin(results)} {RECIPE}",
        ratios(results["ratios"]),
        *_waiting(results),
        "Milliseconds and gigabytes. Activations: alive when the head begins, autocast's copies of the weights among them.",
        _steps_table([*results["steps"], *results["memory"]], table),
    ]
    if results["grpo"]:
        names = (
            "sampler",
            "step s",
            "rollout s",
            "scoring s",
            "rollout tokens per second",
            "step tokens per second",
            "peak GB",
        )
        rows = [[row["model"], *(str(row[name]) for name in names)] for row in results["grpo"]]
        parts.append(table(("GRPO", *names), rows))
    if results["failed"]:
        parts.append("Not measured: " + "; ".join(f"{row['part']} ({row['why']})" for row in results["failed"]) + ".")
    return "\n\n".join(parts)


BEFORE = "Measured before trainings left out cuDNN's attention, which makes a plan for every new width of a batch."
PASSES = (
    "A plain step has 2 passes; a defended one has 4 and 2 of the anchor. What the rest of a step is was not profiled."
)


def _waiting(results: Found) -> list[str]:
    """How much of a step is products, and what is known of the rest."""
    ms = {row["way"]: row["ms"] for row in results["steps"] if row["way"] in results["products"]}
    shares = [f"{way} {results['products'][way] / ms[way]:.0%}" for way in ms if "cheap" not in way]
    passes = [f"{row['way']} {row['passes']:g}" for row in results["steps"] if row["way"] in ms and row.get("passes")]
    counted = f"Passes of the policy in a step: {', '.join(passes)}." if passes else PASSES
    lines = [f"Share of a step that its bare products take: {', '.join(shares)}. {counted}"] if shares else []
    return [" ".join([*lines, *([] if "attention" in results else [BEFORE])])]


MEMORY = ("peak", "reserved", "weights", "gradients", "optimizer", "anchor", "activations", "head")


def _steps_table(steps: Sequence[Found], table: Callable[..., str]) -> str:
    rows = []
    for row in steps:
        times = [
            f"{row['ms']:.0f}",
            f"{row['fastest ms']:.0f} to {row['slowest ms']:.0f}",
            f"{row['optimizer ms']:.0f}",
        ]
        memory = [f"{row[f'{name} GB']:.1f}" if f"{name} GB" in row else "-" for name in MEMORY]
        rows.append([row["model"], row["rows"], row["way"], *times, *memory])
    return table(
        ("model", "rows", "way", "ms, median", "from to", "of them optimizer", *(f"{name} GB" for name in MEMORY)), rows
    )


TITLES = {
    "rows": "Rows of a file, 56 tokens each",
    "vocabulary": "Vocabulary, width 64",
    "width": "Width, vocabulary 4,096, 2 layers",
    "streams": "Streams that the same 16 rows are dealt to",
    "cells": "Cells of a matrix that are all there",
    "runs": "Runs that `holdfast view` lists",
}


def growth(results: Found | None, origin: Callable[[Found], str], table: Callable[..., str]) -> str:
    """A small table for every quantity."""
    if results is None:
        return ""
    parts = [
        "## How cost grows",
        f"{origin(results)} CPU time, and how far the resident memory rises. Exponent: the slope in log-log; 0 costs nothing"
        " more, 1 grows as the quantity does, `-` is too little to tell.",
    ]
    for name, title in TITLES.items():
        own = [row for row in results["growth"] if row["quantity"] == name]
        sizes = own[0]["sizes"]
        rows = [
            [row["what"], *_cells(row, sizes), _shown(row["time exponent"]), _shown(row["memory exponent"])]
            for row in own
        ]
        heads = (title, *(f"{size:,}" for size in sizes), "time exponent", "memory exponent")
        parts.append(table(heads, rows))
    return "\n\n".join(parts)


def _cells(row: Found, sizes: Sequence[int]) -> list[str]:
    costs = dict(zip(row["sizes"], zip(row["seconds"], row["megabytes"], strict=True), strict=True))
    return [_cost(*costs[size]) if size in costs else "-" for size in sizes]


def _cost(seconds: float, megabytes: float) -> str:
    shown = f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
    return f"{shown}, {megabytes:,.0f} MB"


def _shown(exponent: float | None) -> str:
    return "-" if exponent is None else f"{exponent:.2f}"
