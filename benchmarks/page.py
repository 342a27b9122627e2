"""docs/performance.md out of the result files: CPU and GPU tables apart, each with its date, machine and command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import cost_page, scaling
from benchmarks.ledger import committed

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"

RESULTS = (
    *("cpu", "first_answer", "growth", "defended_cpu", "audit", "grpo"),
    *("defended_gpu", "head_gpu", "step_gpu", "generation_gpu", "rollouts_gpu"),
)
INTRODUCTION = """Ratios, each against a peer measured in the same run: seconds of one machine say nothing on another.
Lower is better. `make bench` measures the CPU's, fails where one is more than a tenth above the committed one
(`benchmarks/results`), and writes this page. What needs a GPU or a model comes from the files that the commands below leave
there with `--json`; those commands fail in the same way, and `python -m benchmarks --page` writes the page anew."""


def text() -> str:
    """The whole page, from benchmarks/results."""
    results = {name: committed(name) for name in RESULTS}
    heads, steps = results["head_gpu"], results["step_gpu"]
    gpu = [
        cost_page.defended(results["defended_gpu"], _origin, _ratios, _table),
        _heads(heads),
        _steps(steps),
        _generation(results["generation_gpu"]),
        _rollouts(results["rollouts_gpu"]),
    ]
    parts = [
        "# Performance",
        cost_page.answers(results, _table),
        INTRODUCTION,
        cost_page.growth(results["growth"], _origin, _table),
        _cpu(results["cpu"], results["first_answer"]),
        _defended(results["defended_cpu"]),
        _audits(results["audit"]),
        _grpo(results["grpo"]),
        "## On a GPU",
        *gpu,
        scaling.section(heads, steps) if heads else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _cpu(results: Mapping[str, Any] | None, first: Mapping[str, Any] | None) -> str:
    if results is None:
        return ""
    rows = "\n".join(
        f"| {row['head']} {row['num_tokens']}x{row['width']}x{row['num_vocab']} | {row['objective']} | {row['path']} "
        f"| {row['time_of_reference']:.2f} | {row['peak_below_reference']:.1f} |"
        for row in results["heads"]
        if row["path"] != "reference"
    )
    steps = [row for row in (*results["ratios"], *(first or {"ratios": []})["ratios"]) if row["goal"] is not None]
    return f"""## On a CPU

{_origin(results)} CPU time on one thread.

The head, forward and backward. `fused` is what the trainer uses. Time and peak live bytes (above inputs, weights and
gradients) against whole logits under autograd (`reference`).

| head (tokens x width x vocabulary) | objective | path | time / reference | times less peak memory |
|---|---|---|---|---|
{rows}

One optimizer step, decoding with `<UNDO>`, and the demo. The share of our own Python is cProfile's, which charges Python
functions more than torch's.

{_ratios(steps)}"""


def _defended(results: Mapping[str, Any] | None) -> str:
    if results is None:
        return ""
    names = ("model", "way", "dtype", "CPU seconds of a step")
    return f"""### A defended step, on a CPU

{_origin(results)} CPU time of whole steps of the recipe `defended`, without vetting: 4 task rows of about 90 words and 2 + 2
held ones, LoRA of rank 16; `sft` has the task rows alone. The CPU has instructions for bfloat16.

{_ratios(results["ratios"])}

{_table(names, [[str(row[name]) for name in names] for row in results["steps"]])}"""


def _audits(results: Mapping[str, Any] | None) -> str:
    if results is None:
        return ""
    names = (
        "model",
        "requests",
        "audit s",
        "answers s",
        "judges s",
        "transformers s",
        "tokens",
        "tokens of transformers",
    )
    return f"""### An audit

{_origin(results)} CPU time. Judges `outcome` and `refusal_phrases`, greedy answers of at most 48 tokens in
batches of 16. The peer is transformers' own `model.generate` on the same batches: it encodes prompts and writes tokens.

{_ratios(results["ratios"])}

{_table(names, [[str(row[name]) for name in names] for row in results["audits"]])}"""


def _grpo(results: Mapping[str, Any] | None) -> str:
    if results is None:
        return ""
    names = ("model", "trainer", "CPU seconds of a step", "tokens of a step", "tokens per CPU second")
    megabytes = ", ".join(f"{value} {name}" for name, value in results["memory"].items())
    return f"""### A GRPO step, on a CPU

{_origin(results)} CPU time of whole steps: one prompt, 8 rollouts of at most 32 tokens, KL to a second
model, all weights trained. The peer is TRL's GRPOTrainer with its own sampler and the same settings. Tokens: those written.

{_ratios(results["ratios"])}

{_table(names, [[str(row[name]) for name in names] for row in results["steps"]])}

Resident memory of `tiny:aligned`: {megabytes}."""


def _heads(results: Mapping[str, Any] | None) -> str:
    if results is None:
        return ""
    rows = "\n".join(_milliseconds(row) for row in results["heads"])
    return f"""### The head

{_origin(results)} 8,192 tokens, bf16, csft_pa forward and backward.

{_ratios(results["ratios"])}

Milliseconds of that run, for orientation:

| head | floor | floor with float32 logits | ours | plain torch, fused | frozen shared head: floor, ours | Liger CE | Liger JSD |
|---|---|---|---|---|---|---|---|
{rows}"""


def _steps(results: Mapping[str, Any] | None) -> str:
    if results is None:
        return ""
    names = [name for name in results["steps"][0] if name != "model" and "bytes" not in name]
    rows = [[row["model"], *(f"{row[name]:.1f}" if name in row else "-" for name in names)] for row in results["steps"]]
    return f"""### One optimizer step

{_origin(results)} 8,192 packed tokens, bf16, AdamW.

{_ratios(results["ratios"])}

Milliseconds of that run, for orientation:

{_table(["model", *names], rows)}"""


def _generation(results: Mapping[str, Any] | None) -> str:
    if results is None:
        return ""
    names = ("way", "tokens per second", "seconds", "first call, seconds")
    return f"""### Generation

{_origin(results)} SmolLM2-135M-Instruct in bf16, 200 prompts of mixed length in one batch, 48 new tokens, greedy. Ours goes
from text to text and captures its graph anew in every call; transformers' go from tensors to tensors, and compile in the first.

{_ratios(results["ratios"])}

{_table(names, [[str(row[name]) for name in names] for row in results["ways"]])}"""


def _rollouts(results: Mapping[str, Any] | None) -> str:
    if results is None:
        return ""
    names = ("sampler", "step", "rollout", "scoring", "update", "rollout tokens per second")
    return f"""### A GRPO step

{_origin(results)} SmolLM2-135M-Instruct in bf16, 256 rollouts of at most 128 tokens. Seconds; scoring is the log-probabilities
under policy and reference, and the reward.

{_ratios(results["ratios"])}

{_table(names, [[str(row[name]) for name in names] for row in results["samplers"]])}"""


def _milliseconds(row: Mapping[str, Any]) -> str:
    def shown(name: str) -> str:
        value = row.get(name)
        return "-" if value is None else f"{value:.1f}"

    names = ("floor", "floor, float32 logits", "ours", "chunked")
    cells = [row["head"], *map(shown, names), f"{shown('lora floor')}, {shown('lora')}"]
    return "| " + " | ".join([*cells, shown("liger sft"), shown("liger jsd")]) + " |"


def _origin(results: Mapping[str, Any]) -> str:
    machine = ", ".join(f"{name} {value}" if name in ("torch", "triton", "transformers") else str(value)
                        for name, value in results["machine"].items() if name != "memory")  # fmt: skip
    return f"Written by `{results['command']}` on {results['date']}: {machine}."


def _ratios(rows: Sequence[Mapping[str, Any]]) -> str:
    shown = [
        [row["ratio"], f"{row['measured']:.3f}", "" if row["goal"] is None else f"{row['goal']:.2f}"] for row in rows
    ]
    return _table(("ratio", "measured", "goal, at most"), shown)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(line)} |" for line in (names, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(names), *lines[1:]])
