"""Time and memory on a GPU: medians between CUDA events, with the cache emptied before every run."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

FLUSH_BYTES = 256 * 2**20  # several times the L2 of any GPU


def milliseconds(work: Callable[[], Any], *, runs: int = 7, warm_up: int = 2, ahead: bool = False) -> float:
    """Median time of ``work``. ``ahead``: the host may run ahead of the device, as it does inside a longer step."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    for _ in range(warm_up):
        work()
    marks = []
    for _ in range(runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        flush.zero_()
        if ahead:
            torch.cuda._sleep(20_000_000)  # about 10 ms of nothing, while the host queues the work
        begin.record()
        work()
        end.record()
        marks.append((begin, end))
    torch.cuda.synchronize()
    return float(statistics.median(begin.elapsed_time(end) for begin, end in marks))


def peak_bytes(work: Callable[[], tuple[torch.Tensor, ...]]) -> int:
    """The most bytes alive at once during ``work``, above those before it and without what it returns."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    returned = work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before - sum(each.nbytes for each in returned)


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
