"""Trainings side by side: worker processes of one thread each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TypeVar

import torch

Task = TypeVar("Task")
Result = TypeVar("Result")


def work_through(function: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> Iterator[Result]:
    """Results as they come in. One worker is this process; more are fresh interpreters: torch does not survive a fork."""
    if workers == 1 or len(tasks) < 2:
        yield from map(function, tasks)
        return
    pool = ProcessPoolExecutor(min(workers, len(tasks)), get_context("spawn"), torch.set_num_threads, (1,))
    try:
        for done in as_completed([pool.submit(function, task) for task in tasks]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C: what waits is not begun
