"""What a defended run costs on a GPU: its step, its memory, its preparation, its audit, and a step of GRPO.

    PYTHONPATH=src:studies/src python -m benchmarks.defended_gpu [--out FOLDER] [--only steps,memory] [--seconds 200]

Random weights in the shape of Qwen2.5-Coder-1.5B (and Llama-3-8B for memory), made on the device: nothing is downloaded.
Needs torch, transformers, peft, trl and datasets; no Liger. About 200 s on an H200. Everything is a ratio of two figures of one
run: medians over the steps after a warm-up, all by the real trainers. Every measurement is by itself: one that fails is named
under "failed" and the others go on. ``FOLDER/defended_gpu.json`` (benchmarks/results without ``--out``) is written after each.
No measurement begins after ``--seconds``; a later run with ``--only`` and ``--add`` fills in what is missing.
``--tiny`` tries every path on a CPU and writes figures of no meaning.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import answers_gpu
from benchmarks.defended_steps import RECIPE, STUDY, Load, Way, floor, forget, steps, tiny
from benchmarks.gpu_clock import machine, milliseconds
from benchmarks.ledger import RESULTS, committed, finish, provenance, write
from benchmarks.random_models import LLAMA, QWEN, SMALL, TINY, Shape, make_model

NAME = "defended_gpu"
KEYS = ("model", "rows", "way", "part", "sampler", "growth")  # two rows with the same of these are of the same thing
PARTS = ("steps", "products", "memory", "preparation", "audit", "study", "growth", "grpo")
FULL_GB, LORA_GB, PREPARATION_S = 40, 24, 30
WIDE = replace(RECIPE, name="recipe `defended`, 16 rows a pass", micro_batch=16)
FEW = replace(RECIPE, steps=4)

PLAIN, DEFENDED, CHEAP, TRL = (
    Way("sft"),
    Way("defended", "whole"),
    Way("defended, cheap", "cheap"),
    Way("TRL", trl=True),
)
CHECKPOINTED = Way("defended, checkpointing", "whole", checkpointing=True)
Found = dict[str, Any]


def lora(way: Way) -> Way:
    """The same way with adapters."""
    return replace(way, name=f"LoRA {way.name}", lora=True)


class Bench:
    """Measurements one after another; each is written as soon as it is made."""

    def __init__(self, device: str, path: Path, seconds: float, only: tuple[str, ...], is_tiny: bool) -> None:
        self.device, self.path, self.seconds, self.only, self.is_tiny = device, path, seconds, only, is_tiny
        self.begun = time.perf_counter()
        self.found: Found = {**provenance(), "machine": machine() if device == "cuda" else {"gpu": "none: --tiny"}}
        self.found |= {"ratios": [], "steps": [], "memory": [], "answers": [], "grpo": [], "failed": []}
        self.found |= {"products": {}, "attention": "without cuDNN's"}

    def go_on(self, earlier: Found | None) -> None:
        """Keep an earlier run's figures of other parts: both sides of a ratio are always of one part."""
        if earlier is not None:
            self.found |= {name: earlier[name] for name in ("steps", "memory", "answers", "grpo", "products")}
            self.found["command"] = f"{earlier['command']}`, then `{self.found['command']}"

    def put(self, place: str, row: Found) -> None:
        """Put a row in place of the same figures of an earlier run."""
        kept = [old for old in self.found[place] if any(old.get(key) != row.get(key) for key in KEYS)]
        self.found[place] = [*kept, row]

    def shape(self, shape: Shape) -> Shape:
        """The shape; on a CPU a tiny one."""
        return TINY if self.is_tiny else shape

    def load(self, load: Load) -> Load:
        """The load; on a CPU few and short rows."""
        return tiny(load) if self.is_tiny else load

    def attempt(self, part: str, name: str, work: Callable[[], None]) -> None:
        """Do the work if it is asked for and there is time. If it fails, say so and go on."""
        if part not in self.only:
            return
        spent = time.perf_counter() - self.begun
        if spent > self.seconds:
            self.found["failed"].append({"part": name, "why": f"not begun: {spent:.0f} s were over"})
        else:
            try:
                work()
            except Exception as error:  # whatever a peer or a full memory may raise
                self.found["failed"].append({"part": name, "why": f"{type(error).__name__}: {error}"[:300]})
                traceback.print_exc(limit=-6)
        gc.collect()
        forget()
        took = time.perf_counter() - self.begun - spent
        print(f"{self.begun_ago():6.0f} s  {name}: {took:.1f} s", flush=True)
        self.found["ratios"] = ratios(self.found)
        write(self.path, self.found)

    def begun_ago(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.begun

    def step(self, part: str, shape: Shape, load: Load, way: Way, place: str = "steps") -> None:
        """Steps of one way."""

        def work() -> None:
            with tempfile.TemporaryDirectory() as folder:
                row = steps(self.shape(shape), self.load(load), way, self.device, Path(folder) / "run")
            row |= {"model": shape.name, "rows": load.name}
            print(json.dumps(row), flush=True)
            self.put(place, row)

        self.attempt(part, f"{shape.name}, {load.name}, {way.name}", work)


def measure(bench: Bench) -> None:
    """Measure all parts, the most wanted first."""
    for way in (PLAIN, DEFENDED, CHEAP, TRL):
        bench.step("steps", QWEN, RECIPE, way)
    for way in (PLAIN, DEFENDED, CHEAP, TRL):
        bench.step("steps", QWEN, RECIPE, lora(way))
    bench.attempt("products", "the products by themselves", lambda: _products(bench))
    bench.step("memory", QWEN, FEW, CHECKPOINTED, "memory")
    bench.step("memory", LLAMA, FEW, lora(CHECKPOINTED), "memory")
    bench.step("memory", QWEN, FEW, replace(DEFENDED, name="defended, AdamW not fused", foreach=True), "memory")
    share = 0.01 if bench.is_tiny else 1.0
    for part, work in (("preparation", answers_gpu.preparation), ("audit", answers_gpu.audit)):
        bench.attempt(part, part, partial(_answers, bench, part, work, share))
    for way in (PLAIN, DEFENDED):
        bench.step("study", QWEN, WIDE, way)
    for way in (PLAIN, DEFENDED, TRL):
        bench.step("study", QWEN, STUDY, way)
    with tempfile.TemporaryDirectory() as folder:
        small, big = Path(folder) / "small", Path(folder) / "big"
        bench.attempt("growth", "GRPO, many steps", lambda: _grpo(bench, SMALL, small, "own", share, growth=True))
        for sampler in ("own", "trl"):
            bench.attempt("grpo", f"GRPO, {sampler}", partial(_grpo, bench, QWEN, big, sampler, share))


def _answers(bench: Bench, part: str, work: Callable[..., Found], share: float) -> None:
    figures = work(bench.shape(QWEN), bench.device, share)
    print(json.dumps(figures), flush=True)
    bench.put("answers", {**figures, "part": part, "model": QWEN.name})


def _grpo(bench: Bench, shape: Shape, folder: Path, sampler: str, share: float, *, growth: bool = False) -> None:
    row = answers_gpu.grpo(bench.shape(shape), bench.device, folder, sampler, growth=growth, share=share)
    print(json.dumps(row), flush=True)
    bench.put("grpo", {**row, "model": shape.name, "growth": growth})


def _products(bench: Bench) -> None:
    """The step's products by cuBLAS on whole arrays, each once: milliseconds by way. No kernel of ours is in them."""
    model = make_model(bench.shape(QWEN), torch.bfloat16, bench.device)
    head = model.get_output_embeddings().weight
    layers = [module.weight for module in model.model.layers.modules() if isinstance(module, torch.nn.Linear)]
    for row in bench.found["steps"]:
        if "products" not in row or row["rows"] != RECIPE.name:
            continue
        tokens, is_lora = row["products"], row["way"].startswith("LoRA")
        total = 0.0
        for name in ("policy", "anchor"):
            ways = 1 if name == "anchor" else 2 if is_lora else 3
            total += sum(_product_ms(weights, round(tokens[name]), ways, bench.device) for weights in layers)
            total += _product_ms(head, round(tokens[f"{name}'s head"]), ways, bench.device)
        bench.found["products"][row["way"]] = round(total, 2)
    _KNOWN.clear()


_KNOWN: dict[tuple[int, ...], float] = {}


def _product_ms(weights: torch.Tensor, num: int, ways: int, device: str) -> float:
    """Milliseconds of the first ``ways`` of: forward, back to the input, back to the weights."""
    key = (*weights.shape, num, ways)
    if key not in _KNOWN and num:
        weights = weights.detach()
        inputs = torch.randn(num, weights.shape[1], dtype=weights.dtype, device=device)
        outputs = torch.randn(num, weights.shape[0], dtype=weights.dtype, device=device)
        works: tuple[Callable[[], Any], ...] = (
            lambda: inputs @ weights.t(),
            lambda: outputs @ weights,
            lambda: outputs.t() @ inputs,
        )
        _KNOWN[key] = sum(_ms(work, device) for work in works[:ways])
    return _KNOWN.get(key, 0.0)


def _ms(work: Callable[[], Any], device: str) -> float:
    if device == "cuda":
        return milliseconds(work, runs=3, warm_up=1)
    begun = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - begun)


def ratios(results: Mapping[str, Any]) -> list[Found]:
    """The ratios with a goal, and those beside them. Lower is better in all of them."""
    by_way = {(row["rows"], row["way"]): row for row in results["steps"]}
    rows: list[Found] = []

    def add(name: str, one: float | None, other: float | None, goal: float | None = None) -> None:
        if one is not None and other:
            rows.append({"ratio": f"1.5B {name}", "measured": round(one / other, 3), "goal": goal})

    for kind, most, peak_goal in (("full", "", 1.25), ("LoRA", "LoRA ", 1.05)):
        plain, whole, cheap, trl = (
            by_way.get((RECIPE.name, most + way.name), {}) for way in (PLAIN, DEFENDED, CHEAP, TRL)
        )
        for name, own, goal in (("defended", whole, None), ("defended, cheap held rows", cheap, 1.35)):
            add(f"{kind}: a step, {name} / our plain sft", own.get("ms"), plain.get("ms"), goal)
            add(f"{kind}: a step, {name} / TRL's SFT", own.get("ms"), trl.get("ms"))
            if own and plain:
                add(f"{kind}: a step, {name} / its floor", own["ms"], floor(own, plain), 1.10)
            add(f"{kind}: a step, {name} / its bare products", own.get("ms"), results["products"].get(own.get("way")))
            add(f"{kind}: peak, {name} / our plain sft", own.get("peak GB"), plain.get("peak GB"), peak_goal)
            add(f"{kind}: peak, {name} / TRL's SFT", own.get("peak GB"), trl.get("peak GB"))
        add(f"{kind}: a step, our plain sft / TRL's SFT", plain.get("ms"), trl.get("ms"))
        add(
            f"{kind}: a step, our plain sft / its bare products",
            plain.get("ms"),
            results["products"].get(plain.get("way")),
        )
    for load in (WIDE, STUDY):
        plain, whole, trl = (by_way.get((load.name, way.name), {}) for way in (PLAIN, DEFENDED, TRL))
        add(f"full, {load.name}: a step / our plain sft", whole.get("ms"), plain.get("ms"))
        if whole and plain:
            add(f"full, {load.name}: a step / its floor", whole["ms"], floor(whole, plain), 1.10)
        add(f"full, {load.name}: a step / TRL's SFT", whole.get("ms"), trl.get("ms"))
    return rows + _memory_ratios(results) + _answer_ratios(results) + _grpo_ratios(results)


def _memory_ratios(results: Mapping[str, Any]) -> list[Found]:
    peaks = {(row["model"], row["way"]): row["peak GB"] for row in results["memory"]}
    names = (
        (f"1.5B full with an anchor, checkpointing: peak / {FULL_GB} GB", (QWEN.name, CHECKPOINTED.name), FULL_GB),
        (f"8B LoRA, checkpointing: peak / {LORA_GB} GB", (LLAMA.name, lora(CHECKPOINTED).name), LORA_GB),
    )
    return [
        {"ratio": name, "measured": round(peaks[key] / room, 3), "goal": 1.0}
        for name, key, room in names
        if key in peaks
    ]


def _answer_ratios(results: Mapping[str, Any]) -> list[Found]:
    rows = []
    for row in results["answers"]:
        if row["part"] == "preparation":
            for dtype in ("bfloat16", "float32"):
                measured = round(row[dtype]["seconds"] / PREPARATION_S, 3)
                name = f"1.5B preparation in {dtype}: seconds / {PREPARATION_S} s"
                rows.append({"ratio": name, "measured": measured, "goal": 1.0})
                if "again s" in row[dtype]:  # older results, from before answers were kept, have none
                    again = round(row[dtype]["again s"] / row[dtype]["seconds"], 3)
                    rows.append(
                        {"ratio": f"1.5B preparation in {dtype}: again / first", "measured": again, "goal": 0.5}
                    )
        else:
            measured = round(row["audit s"] / row["transformers s"], 3)
            name = "1.5B audit with two judges: time / transformers' own generation"
            rows.append({"ratio": name, "measured": measured, "goal": 1.0})
            rows.append({"ratio": "1.5B audit: judges / all", "measured": row["judges' share"], "goal": 0.5})
    return rows


def _grpo_ratios(results: Mapping[str, Any]) -> list[Found]:
    rows = []
    own, trl = (
        [row for row in results["grpo"] if row["sampler"] == name and not row["growth"]] for name in ("own", "trl")
    )
    if own and trl:
        for name, key in (("a GRPO step", "step s"), ("its rollouts", "rollout s"), ("its peak", "peak GB")):
            if trl[0][key]:
                measured = round(own[0][key] / trl[0][key], 3)
                rows.append({"ratio": f"1.5B {name} / with TRL's sampler", "measured": measured, "goal": None})
    for row in results["grpo"]:
        if row["growth"] and "late / early bytes" in row:
            name = f"GRPO, {row['steps']} steps: bytes alive, last quarter / second"
            rows.append({"ratio": name, "measured": row["late / early bytes"], "goal": 1.01})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=RESULTS)
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=200, help="no measurement begins after so many")
    parser.add_argument("--add", action="store_true", help="to the committed figures")
    parser.add_argument("--tiny", action="store_true", help="every path on a CPU; the figures mean nothing")
    options = parser.parse_args()
    before = None if options.tiny else committed(NAME)
    path = options.out / ("tiny.json" if options.tiny else f"{NAME}.json")
    bench = Bench(
        "cpu" if options.tiny else "cuda", path, options.seconds, tuple(options.only.split(",")), options.tiny
    )
    if options.add:
        bench.go_on(committed(NAME))
    measure(bench)
    for failure in bench.found["failed"]:
        print("FAILED", failure["part"], failure["why"])
    finish(bench.found["ratios"], before)


if __name__ == "__main__":
    main()
