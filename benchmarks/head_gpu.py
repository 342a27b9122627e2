"""The head on a GPU: csft_pa forward and backward against the floor of its four products, and against Liger's kernels.

    python -m benchmarks.head_gpu [--quick] [--tune] [--json benchmarks/results/head_gpu.json]

8,192 tokens in bf16 on heads of real shapes. Everything is measured in one run: medians between CUDA events, the works
taking turns, the cache emptied before each; the floor is cuBLAS on whole arrays, each product once.
"""

from __future__ import annotations

import argparse
import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu_clock import host_milliseconds, kernels, machine, milliseconds, peak_bytes, side_by_side
from benchmarks.ledger import committed, finish, provenance, write
from holdfast import objectives
from holdfast.heads import Group, Reference, TokenStats, fused_loss, token_stats

NUM_TOKENS = 8192
LIGER_CHUNKS = (1, 4, 8, 16)  # of its chunk_mem_const; 1 is its default


@dataclass(frozen=True)
class Goal:
    floor: float
    liger_sft: float
    liger_jsd: float
    peak: float = 0.1


@dataclass(frozen=True)
class Shape:
    name: str
    width: int
    num_vocab: int
    goal: Goal


SHAPES = (
    Shape("Llama-3-8B", 4096, 128256, Goal(1.12, 1.40, 0.55)),
    Shape("Qwen2.5-7B", 3584, 152064, Goal(1.12, 1.40, 0.55)),
    Shape("SmolLM2-135M", 576, 49152, Goal(1.60, 1.25, 0.15)),
)


class Case:
    """Policy and anchor at the same tokens: logits of standard deviation 2.5 that differ by 0.35."""

    def __init__(self, shape: Shape, num_tokens: int = NUM_TOKENS, device: str = "cuda") -> None:
        random = torch.Generator(device).manual_seed(0)

        def normal(rows: int, size: float) -> Tensor:
            drawn = torch.randn(rows, shape.width, generator=random, device=device, dtype=torch.bfloat16)
            return drawn.mul_(size)

        self.shape = shape
        self.hidden = normal(num_tokens, 1.0).requires_grad_()
        self.weight = normal(shape.num_vocab, 2.5 / shape.width**0.5).requires_grad_()
        self.ref_hidden = self.hidden.detach() + normal(num_tokens, 0.1)
        self.ref_weight = self.weight.detach() + normal(shape.num_vocab, 0.25 / shape.width**0.5)
        self.targets = torch.randint(shape.num_vocab, (num_tokens,), generator=random, device=device)
        self.position = torch.arange(num_tokens, device=device) % 200
        self.scale = torch.full((num_tokens,), 1 / num_tokens, device=device)

    def objective(self, stats: TokenStats, rows: slice) -> Tensor:
        return objectives.csft_pa(stats, position=self.position[rows])

    def anchor(self) -> dict[str, Any]:
        return {"ref_hidden": self.ref_hidden, "ref_weight": self.ref_weight}

    def group(self, shared: bool = False) -> Group:
        reference = Reference(hidden=self.ref_hidden, weight=None if shared else self.ref_weight)
        want = objectives.stats_read("csft_pa")
        return Group(0, len(self.targets), self.objective, reference, want=want)

    def ours(self, *, lora: bool = False, **options: Any) -> tuple[Tensor, ...]:
        """Forward and backward of csft_pa; ``lora``: a frozen head, shared with the anchor."""
        weight = self.weight.detach() if lora else self.weight
        group = self.group(shared=lora)
        loss = fused_loss(self.hidden, weight, self.targets, [group], scale=self.scale, **options).loss
        return torch.autograd.grad(loss, (self.hidden,) if lora else (self.hidden, self.weight))

    def reference(self) -> tuple[Tensor, ...]:
        """The same on whole logits under autograd."""
        want = objectives.stats_read("csft_pa")
        stats = token_stats(self.hidden, self.weight, self.targets, **self.anchor(), want=want, backend="reference")
        loss = self.objective(stats, slice(None)).mean()
        return torch.autograd.grad(loss, (self.hidden, self.weight))

    def liger_sft(self, chunk: int) -> tuple[Tensor, ...]:
        """Plain SFT by Liger's fused linear cross-entropy."""
        from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction as Function

        returned = Function.apply(
            self.hidden, self.weight, self.targets, None, None, -100, 0.0, 0.0, "mean",
            None, False, None, False, False, False, None, None, chunk,
        )  # fmt: skip
        loss = returned[0] if isinstance(returned, tuple) else returned
        return torch.autograd.grad(loss, (self.hidden, self.weight))

    def liger_jsd(self) -> tuple[Tensor, ...]:
        """Policy and teacher by Liger's fused linear Jensen-Shannon divergence."""
        from liger_kernel.ops.fused_linear_jsd import LigerFusedLinearJSDFunction as Function

        loss = Function.apply(self.hidden, self.weight, self.ref_hidden, self.ref_weight)
        return torch.autograd.grad(loss, (self.hidden, self.weight))

    def floor(self, logits: torch.dtype, *, lora: bool = False) -> Callable[[], None]:
        """Policy forward, anchor forward, and two products back (one for a frozen head), each on whole arrays."""
        hidden, weight = self.hidden.detach(), self.weight.detach()
        out = torch.empty(len(hidden), len(weight), dtype=logits, device="cuda")
        grad = torch.randn(len(hidden), len(weight), dtype=torch.bfloat16, device="cuda")
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.empty_like(weight)

        def forward(left: Tensor, right: Tensor) -> None:
            if logits is torch.float32:
                torch.mm(left, right.t(), out_dtype=torch.float32, out=out)
            else:
                torch.mm(left, right.t(), out=out)

        def work() -> None:
            forward(hidden, weight)
            forward(self.ref_hidden, self.ref_weight)
            torch.mm(grad, weight, out=grad_hidden)
            if not lora:
                torch.mm(grad.t(), hidden, out=grad_weight)

        return work


def measure(shape: Shape, *, quick: bool) -> dict[str, Any]:
    """Milliseconds and bytes of everything on one head. What fails is named, and the rest goes on."""
    case = Case(shape)
    figures: dict[str, Any] = {"head": shape.name, "width": shape.width, "num_vocab": shape.num_vocab}
    with attempt(figures, "active share"):
        stats = token_stats(case.hidden.detach(), case.weight.detach(), case.targets, **case.anchor())
        figures["active share"] = round((stats.top != stats.need("top_ref")).float().mean().item(), 3)
    works = dict(_that_run(figures, _works(case, quick)))
    figures |= _rounded(side_by_side(works, 5 if quick else 9))
    liger = [value for name, value in figures.items() if name.startswith("liger sft")]
    figures["liger sft"] = min(liger, default=None)
    with attempt(figures, "liger jsd"):
        figures["liger jsd"] = round(milliseconds(case.liger_jsd, runs=2 if quick else 5, warm_up=1), 3)
    for name, call in (("ours", case.ours), ("lora", lambda: case.ours(lora=True))):
        with attempt(figures, f"host, {name}"):
            figures[f"{name}, host"] = round(host_milliseconds(call), 3)
            figures[f"{name}, host ahead"] = round(milliseconds(call, runs=5, ahead=True), 3)
            figures[f"{name}, peak bytes"] = peak_bytes(call)
    works.clear()  # the floors keep whole logits alive
    with attempt(figures, "peak bytes, reference"):
        figures["reference, peak bytes"] = peak_bytes(case.reference)
    if not quick:
        with attempt(figures, "kernels"):
            figures["kernels"] = {"ours": kernels(case.ours), "lora": kernels(lambda: case.ours(lora=True))}
    return figures


def _works(case: Case, quick: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "floor", case.floor(torch.bfloat16)
    yield "floor, float32 logits", case.floor(torch.float32)
    yield "ours", case.ours
    yield "lora floor", case.floor(torch.bfloat16, lora=True)
    yield "lora", lambda: case.ours(lora=True)
    for chunk in LIGER_CHUNKS[-2:] if quick else LIGER_CHUNKS:
        yield f"liger sft, chunk {chunk}", partial(case.liger_sft, chunk)
    if quick:
        return
    yield "chunked", lambda: case.ours(backend="chunked")
    for rows in (512, 1024, 2048, 4096):
        yield f"ours, chunks of {rows}", partial(case.ours, chunk_tokens=rows)


def _that_run(
    figures: dict[str, Any], works: Iterator[tuple[str, Callable[[], Any]]]
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The works that ran twice without an error, which also compiles and warms them up."""
    for name, work in works:
        with attempt(figures, name):
            work()
            work()
            torch.cuda.synchronize()
            yield name, work


def _rounded(times: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in times.items()}


@contextmanager
def attempt(figures: dict[str, Any], name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a benchmark of several peers goes on without the one that is broken
        figures[f"failed: {name}"] = f"{type(error).__name__}: {error}"[:300]
        traceback.print_exc(limit=4)
        torch.cuda.empty_cache()


def ratios(figures: dict[str, Any], goal: Goal) -> list[dict[str, Any]]:
    """The figures with goals, of one head."""
    pairs = [
        ("csft_pa / floor of its 4 products", "ours", "floor", goal.floor),
        ("csft_pa / the same floor with float32 logits", "ours", "floor, float32 logits", None),
        ("csft_pa / Liger fused linear CE", "ours", "liger sft", goal.liger_sft),
        ("csft_pa / Liger fused linear JSD", "ours", "liger jsd", goal.liger_jsd),
        ("peak bytes / reference", "ours, peak bytes", "reference, peak bytes", goal.peak),
        ("frozen, shared head / floor of its 3 products", "lora", "lora floor", None),
    ]
    return [
        {"ratio": f"{figures['head']}: {name}", "measured": round(figures[one] / figures[other], 3), "goal": limit}
        for name, one, other, limit in pairs
        if figures.get(one) and figures.get(other)
    ]


def tune() -> list[dict[str, Any]]:
    """Launch settings of the two kernels on one chunk of each vocabulary, as a share of what memory could move."""
    from holdfast.heads import triton_chunk

    rows: list[dict[str, Any]] = [{"kernel": "copy", "GB/s": _copy_rate()}]
    for shape in SHAPES:
        for name in ("MEASURE", "DIFFERENTIATE"):
            kept = dict(getattr(triton_chunk, name))
            for block, warps, tiles in ((1024, 4, 8), (2048, 4, 4), (2048, 8, 4), (2048, 16, 4), (4096, 8, 2)):
                settings = {"BLOCK": block, "num_warps": warps} | ({"TILES": tiles} if "TILES" in kept else {})
                getattr(triton_chunk, name).update(settings)
                rows.append({"head": shape.name, "kernel": name, **settings, "GB/s": _rate(shape, name)})
            getattr(triton_chunk, name).update(kept)
    return rows


def _copy_rate() -> int:
    """Bytes per second that device memory moves, read and written."""
    source = torch.empty(2**31, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return round(2 * source.nbytes / milliseconds(lambda: target.copy_(source)) / 1e6)


def _rate(shape: Shape, name: str) -> int:
    """Bytes per second of one kernel: what it must move in a chunk, over its time."""
    from holdfast.heads.triton_chunk import TritonChunk
    from holdfast.heads.want import Want

    num_rows = 1024
    want = Want(frozenset({"logp_ref", "kl", "delta", "top_ref"}), live=True, soften=None)
    device = torch.device("cuda")
    chunk = TritonChunk(want, num_rows, shape.num_vocab, torch.float32, device)
    for buffer in "ab":
        chunk.map(buffer).normal_()
    targets = torch.randint(shape.num_vocab, (num_rows,), device=device)
    size = num_rows * shape.num_vocab
    if name == "MEASURE":
        return round(8 * size / milliseconds(lambda: chunk.measure(targets, None), ahead=True) / 1e6)
    chunk.measure(targets, None)
    slopes = {name: torch.randn(num_rows, device=device) for name in ("logp", "kl", "delta")}
    out = torch.empty(num_rows, shape.num_vocab, dtype=torch.bfloat16, device=device)
    return round(10 * size / milliseconds(lambda: chunk.gradient(slopes, out=out), ahead=True) / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write everything there")
    parser.add_argument("--quick", action="store_true", help="what the ratios need and no more: half a minute")
    parser.add_argument("--tune", action="store_true", help="also time launch settings of the kernels")
    options = parser.parse_args()
    before = committed("head_gpu")
    everything: dict[str, Any] = {**provenance(), "machine": machine(), "ratios": [], "heads": []}
    print(json.dumps(everything["machine"]), flush=True)
    if options.tune:
        with attempt(everything, "tune"):
            everything["tune"] = tune()
            print("\n".join(json.dumps(row) for row in everything["tune"]), flush=True)
    for shape in SHAPES:
        figures = measure(shape, quick=options.quick)
        everything["heads"].append(figures)
        everything["ratios"] += ratios(figures, shape.goal)
        print(json.dumps(figures), flush=True)
        torch.cuda.empty_cache()
        if options.json:
            write(Path(options.json), everything)
    finish(everything["ratios"], before)


if __name__ == "__main__":
    main()
