"""Trainings side by side: processes of one thread each."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from itertools import chain
from multiprocessing import get_context
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

import torch

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_processes(function: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> Iterator[Result]:
    """Results as they come in. Whoever is free takes the next task, so the longest had better come first.

    This process is one of the workers and begins at once, having imported everything; the others are fresh interpreters:
    torch does not survive a fork. What they have finished, or an error of theirs, comes between two tasks of this one.
    """
    function = partial(_then_freed, function)
    if workers == 1 or len(tasks) < 2:
        yield from map(function, tasks)
        return
    left = iter(tasks)
    first = next(left)
    num_others, num_threads = min(workers, len(tasks)) - 1, torch.get_num_threads()
    pool = ProcessPoolExecutor(num_others, get_context("spawn"), torch.set_num_threads, (1,))
    finished: SimpleQueue[Future[Result]] = SimpleQueue()

    def keep_one_busy() -> None:
        for task in left:
            future = pool.submit(function, task)
            failed = future.exception()  # waits for it
            finished.put(future)
            if failed is not None:
                break

    torch.set_num_threads(1)
    try:
        for _ in range(num_others):
            Thread(target=keep_one_busy, daemon=True).start()
        missing = len(tasks)
        for task in chain([first], left):
            yield function(task)
            missing -= 1
            while not finished.empty():
                yield finished.get().result()
                missing -= 1
        for _ in range(missing):
            yield finished.get().result()
    finally:
        list(left)  # after an error or Ctrl-C: what waits is not begun
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(num_threads)


def _then_freed(function: Callable[[Task], Result], task: Task) -> Result:
    """Trainers hold on to themselves: their memory is wanted by the next task."""
    result = function(task)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return result
