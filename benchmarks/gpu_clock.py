"""Time and memory on a GPU: medians between CUDA events, with the cache emptied before every run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

FLUSH_BYTES = 256 * 2**20  # several times the L2 of any GPU
WAIT_CYCLES = 40_000_000  # about 20 ms of nothing, while the host queues work


def milliseconds(work: Callable[[], Any], *, runs: int = 7, warm_up: int = 2, ahead: bool = False) -> float:
    """Median time of ``work``. ``ahead``: the host may run ahead of the device, as it does inside a longer step.

    The wait also lets the device rest: where products are bound by power, they are several per cent faster after it.
    """
    for _ in range(warm_up):
        work()
    return side_by_side({"": work}, runs, ahead=ahead)[""]


def side_by_side(works: Mapping[str, Callable[[], Any]], rounds: int, *, ahead: bool = False) -> dict[str, float]:
    """Median times of works that take turns, so that heat, clocks and a busy host are the same for all of them."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    marks: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            flush.zero_()
            if ahead:
                torch.cuda._sleep(WAIT_CYCLES)
            begin.record()
            work()
            end.record()
            marks[name].append((begin, end))
    torch.cuda.synchronize()
    return {name: statistics.median(b.elapsed_time(e) for b, e in pairs) for name, pairs in marks.items()}


def host_milliseconds(work: Callable[[], Any], runs: int = 5) -> float:
    """Median time that the host needs to queue ``work`` while the device is busy with nothing."""
    seconds = []
    for _ in range(runs):
        torch.cuda.synchronize()
        torch.cuda._sleep(WAIT_CYCLES)
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    torch.cuda.synchronize()
    return 1e3 * statistics.median(seconds)


def peak_bytes(work: Callable[[], tuple[torch.Tensor, ...]]) -> int:
    """The most bytes alive at once during ``work``, above those before it and without what it returns."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    returned = work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before - sum(tensor.nbytes for tensor in returned)


def kernels(work: Callable[[], Any], most: int = 14) -> list[tuple[str, float, int]]:
    """Where the time goes: (kernel, milliseconds, launches), the longest first."""
    from torch.profiler import ProfilerActivity, profile

    work()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        work()
        torch.cuda.synchronize()
    rows = [(row.key[:70], row.self_device_time_total / 1e3, row.count) for row in recorded.key_averages()]
    return sorted(rows, key=lambda row: -row[1])[:most]


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    import triton

    free, whole = torch.cuda.mem_get_info()
    return {
        "gpu": torch.cuda.get_device_name(),
        "memory": f"{whole / 2**30:.0f} GiB, {free / 2**30:.0f} free",
        "torch": torch.__version__,
        "triton": triton.__version__,
    }
