"""Live bytes, counted by the allocator's own events with the benchmark's meter: bounded by the chunk, not by N x V.

tracemalloc does not see torch's memory. What counts is above the resident inputs and weights and without the gradients
that every path must return.
"""

import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import torch

from holdfast.heads import logit_chunk, walk


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "head_loss.py"
    spec = importlib.util.spec_from_file_location("head_loss", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["head_loss"] = module
    spec.loader.exec_module(module)
    return module


def test_the_meter_sees_what_is_alive(bench: ModuleType) -> None:
    """Two arrays of 4 MB alive at once, then one more after they are gone; a third is returned and not counted."""
    size = (1000, 1000)

    def work() -> tuple[torch.Tensor, ...]:
        first, second = torch.ones(size), torch.ones(size)
        del first, second
        third = torch.ones(size)
        return (third.add_(1),)

    assert bench.peak_bytes(work) == 4_000_000  # 8 MB at most, less the 4 MB it returns

    def inside() -> tuple[torch.Tensor, ...]:
        return (torch.logsumexp(torch.ones(size), -1),)

    assert bench.peak_bytes(inside) >= 8_000_000, "arrays that an operation makes for itself count"


@pytest.mark.parametrize("objective", ["sft", "csft_pa", "distill"])
def test_peak_is_bounded_by_the_chunk(bench: ModuleType, objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Llama-3's vocabulary over 32: 64 x 4008 per chunk. Twice the tokens, the same peak."""
    logits = 64 * 4008 * 4
    monkeypatch.setitem(walk.CHUNK_BYTES, "cpu", logits)
    monkeypatch.setattr(logit_chunk, "BLOCK_BYTES", logits // 8)
    arrays = {"sft": 1, "csft_pa": 2, "distill": 2}[objective]
    for num_tokens in (512, 1024):
        case = bench.Case.make(bench.Shape("small", 16, 4008, num_tokens))
        for path in ("chunked", "fused"):
            assert bench.peak_bytes(partial(case.grads, objective, path)) < (arrays + 0.5) * logits


@pytest.mark.parametrize("objective", ["sft", "csft_pa", "distill"])
def test_eight_times_below_whole_logits(bench: ModuleType, objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(walk.CHUNK_BYTES, "cpu", 64 * 4008 * 4)
    case = bench.Case.make(bench.Shape("small", 16, 4008, 768))
    peaks = {path: bench.peak_bytes(partial(case.grads, objective, path)) for path in bench.PATHS}
    assert peaks["reference"] / peaks["fused"] >= 8
    assert peaks["reference"] / peaks["chunked"] >= 8


def test_a_half_precision_weight_is_never_widened_whole(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """4008 x 64 in bf16, widened in blocks of 16 KiB: no more is alive than the chunk, its scratch array, and its gradient in
    bf16, which a CPU that multiplies bfloat16 takes. The whole weight would be four chunks more."""
    monkeypatch.setattr("holdfast.heads.products.WIDENED_BYTES", 2**14)
    monkeypatch.setattr(walk, "WIDENING", 1)
    monkeypatch.setitem(walk.CHUNK_BYTES, "cpu", 16 * 4008 * 4)
    case = bench.Case.make(bench.Shape("small", 64, 4008, 64))
    frozen = bench.Case(
        case.hidden.detach().bfloat16().requires_grad_(),
        case.weight.detach().bfloat16(),
        case.targets,
        case.ref_hidden.bfloat16(),
        case.ref_weight.bfloat16(),
    )

    def work() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(frozen.loss("sft", "fused"), frozen.hidden)

    assert bench.peak_bytes(work) < 3.25 * 16 * 4008 * 4


def test_the_benchmark_runs(bench: ModuleType) -> None:
    rows = bench.measure([bench.Shape("small", 8, 600, 40)], ("sft", "csft_pa"), rounds=1)
    assert [(row["objective"], row["path"]) for row in rows] == [
        (name, path) for name in ("sft", "csft_pa") for path in bench.PATHS
    ]
    assert all(row["milliseconds"] > 0 and row["peak_mib"] >= 0 for row in rows)
    assert bench.table(rows).row_count == 6
